"""`manage.py steady_queue`: runs background tasks, checks that it could, or tells whether it does."""

from __future__ import annotations

import os
import sys
from argparse import BooleanOptionalAction, RawDescriptionHelpFormatter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

import steady_queue
from steady_queue.aio.supervisor.child import orders
from steady_queue.configuration import configured
from steady_queue.errors import ConfigurationError
from steady_queue.management import log_output
from steady_queue.management.options import resolve

# The rest is imported where it is needed: a child, a probe and a supervisor each need little of it, and must be quick.

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from steady_queue.management.options import ResolvedOptions

DESCRIPTION = """\
Runs background tasks: the workers and dispatchers of settings.STEADY_QUEUE.

  manage.py steady_queue            a process for each of them, kept alive by this one
  manage.py steady_queue --async    all of them in one event loop of this process
  manage.py steady_queue check      look for every problem of settings, database and schema, and start nothing
  manage.py steady_queue health     exit with 0 if the workers of this machine look for tasks, with 1 if not
"""
EPILOG = """\
What runs, when it ends and the format of the log can also be set in the environment, as STEADY_QUEUE_THREADS=5 or
STEADY_QUEUE_ASYNC=1, and all but --async, --drain and --reload in settings.py:
STEADY_QUEUE = Configuration.Options(...). The command line wins over the environment, and that over the settings.

Stopping: TERM, or Ctrl-C, lets running tasks finish for steady_queue.shutdown_timeout; async tasks that take longer are
cancelled and run again later, others are given back when their process has ended. QUIT, or Ctrl-C twice, does not wait.
"""


class Command(BaseCommand):
    help = DESCRIPTION
    # What Django would check is checked with everything else, and all told at once.
    requires_system_checks = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Where they are closed, Python has none, and a file opened later would get their number.
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, it stays open
        super().__init__(*args, **kwargs)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(
            prog_name, subcommand, epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter, **kwargs
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", nargs="?", default="run", choices=["run", "check", "health"], help="default: run")
        what = parser.add_argument_group("what runs")
        what.add_argument(
            "--async",
            action=BooleanOptionalAction,
            help="everything in one event loop; workers with processes=N have N-1 more",
        )
        what.add_argument(
            "--queues",
            metavar="A,B*",
            help="one worker for these queues, in this order, instead of the configured ones",
        )
        what.add_argument("--coroutines", metavar="N", help="async tasks that each worker runs at once")
        what.add_argument("--threads", metavar="N", help="sync tasks that each worker runs at once")
        what.add_argument("--processes", metavar="N", help="processes of each worker")
        what.add_argument(
            "--only-work", action=BooleanOptionalAction, help="no dispatchers: others must move scheduled tasks"
        )
        what.add_argument("--skip-recurring", action=BooleanOptionalAction, help="no recurring tasks")
        ends = parser.add_argument_group("when it ends")
        ends.add_argument(
            "--drain",
            action=BooleanOptionalAction,
            help="stop when nothing is ready, blocked or running in its queues and nothing is due within 5 s",
        )
        ends.add_argument("--max-tasks", metavar="N", help="replace a process when it has ended N tasks")
        ends.add_argument("--max-rss", metavar="MIB", help="replace a process when it has so much memory")
        ends.add_argument("--reload", action="store_true", help="start again when the code changes; for development")
        output = parser.add_argument_group("output")
        output.add_argument(
            "--log-format", metavar="text|json", help="of log lines, unless LOGGING configures 'steady_queue'"
        )
        health = parser.add_argument_group("health")
        health.add_argument("--max-age", metavar="S", help="how long ago the last successful poll may be, in seconds")

    @property
    def is_main(self) -> bool:
        """Whether this is the process's own command, not one that other code called."""
        return bool(getattr(self, "_called_from_command_line", False))

    def handle(self, *args: Any, **options: Any) -> None:
        given = orders(os.environ)
        try:
            if given is not None:
                from steady_queue.aio.command import launch

                log_output.configure_logging(options["verbosity"], given.options.log_format)
                launch.child(given)
            else:
                {"run": self.run, "check": self.check_all, "health": self.health}[options["action"]](options)
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:  # before anything runs that could be stopped
            sys.exit(130)

    def run(self, options: dict[str, Any]) -> None:
        """Run until told to stop."""
        if options["reload"]:
            from steady_queue.management import reloader

            if not reloader.follow_reloader(os.environ):
                sys.exit(reloader.Reloader(sys.stderr).run())
        resolved = self._resolved(options)
        from steady_queue.aio.command import launch
        from steady_queue.aio.command.pidfile import held
        from steady_queue.management.banner import banner

        is_text = resolved.options.log_format == "text"
        log_output.configure_logging(options["verbosity"], resolved.options.log_format)
        shows_status = is_text and options["verbosity"] >= 1 and sys.stderr.isatty()
        with held(steady_queue.supervisor_pidfile) as release:
            if is_text and options["verbosity"] >= 1:
                for line in banner(resolved):
                    self.stderr.write(line, self.style.NOTICE if line[0] != " " else None)
            if resolved.in_one_loop:
                launch.in_one_loop(resolved, shows_status=shows_status, before_exit=release if self.is_main else None)
            else:
                launch.supervised(resolved, shows_status=shows_status, before_exit=release)

    def check_all(self, options: dict[str, Any]) -> None:
        """Tell every problem at once, and start nothing."""
        from steady_queue.checks import preflight

        try:
            resolved = resolve(configured(), options, os.environ)
        except ConfigurationError:
            status, lines, complaints = preflight.report()
        else:
            status, lines, complaints = preflight.report(
                resolved.options, resolved.problems, resolved.named_queues, in_one_loop=resolved.in_one_loop
            )
        for line in lines:
            self.stdout.write(line)
        for line in complaints:
            self.stderr.write(line)
        if status:
            sys.exit(status)

    def health(self, options: dict[str, Any]) -> None:
        """Whether the workers of this machine look for tasks."""
        from steady_queue.checks.health import check_health

        try:
            max_age = None if options["max_age"] is None else timedelta(seconds=float(options["max_age"]))
        except (ValueError, OverflowError):
            raise CommandError(f"--max-age must be a number of seconds, not {options['max_age']!r}") from None
        found = check_health(max_age=max_age)
        for line in found.lines:
            self.stdout.write(line)
        if not found.healthy:
            sys.exit(1)

    def _resolved(self, options: dict[str, Any]) -> ResolvedOptions:
        """What is to run; refused with every problem that can be found without the database."""
        from steady_queue.checks import preflight

        resolved = resolve(configured(), options, os.environ)
        found = preflight.at_start(
            resolved.options, resolved.problems, resolved.named_queues, in_one_loop=resolved.in_one_loop
        )
        problems = list(found.errors)
        if not self.is_main and not resolved.in_one_loop:
            problems.append("call_command can run everything in one loop only: call_command('steady_queue', '--async')")
        elif not self.is_main and not problems and resolved.options.additional_processes():
            problems.append("call_command can start no other processes: processes must be 1")
        if problems:
            raise ConfigurationError("\n".join(problems))
        for warning in found.warnings:
            self.stderr.write(f"warning: {warning}")
        return resolved
