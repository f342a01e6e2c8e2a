"""`manage.py steady_queue`: runs background tasks, checks the project, or reports the health of the processes."""

from __future__ import annotations

import os
import sys
from argparse import BooleanOptionalAction, RawDescriptionHelpFormatter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.core.management.color import no_style

import steady_queue
from steady_queue import events
from steady_queue.aio.command.terminal import style_of
from steady_queue.aio.supervisor.child import read_orders
from steady_queue.configuration import read_options
from steady_queue.errors import ConfigurationError, SteadyQueueError
from steady_queue.management import log_output
from steady_queue.management.options import add_cancel_options, find_misplaced, resolve

# Other modules are imported where they are used: a child, a probe and a supervisor each need few, and start quickly.

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Mapping

    from steady_queue.aio.command.terminal import Terminal
    from steady_queue.management.options import ResolvedOptions

DESCRIPTION = """\
Runs background tasks with the workers and dispatchers of settings.STEADY_QUEUE.

  manage.py steady_queue                   run each of them in a child process; this process supervises them
  manage.py steady_queue --async           run all of them in one event loop in this process
  manage.py steady_queue check             report all problems of settings, database and schema; start nothing
  manage.py steady_queue check --stored    report which stored tasks this code could not run
  manage.py steady_queue health            exit with 0 if the processes of this machine poll for tasks, else with 1
  manage.py steady_queue run ID            run one stored task in this process, and change nothing in the queue
  manage.py steady_queue cancel ID ...     cancel tasks; with --queue, --task or --status all that match
"""
EPILOG = """\
All options but --reload and --max-age can also be set in the environment, for example STEADY_QUEUE_THREADS=5 or
STEADY_QUEUE_ASYNC=1. All of these but --async and --drain can also be set in settings.py:
STEADY_QUEUE = Configuration.Options(...). The command line overrides the environment, which overrides the settings.

Stopping: TERM, or Ctrl-C, gives running tasks steady_queue.shutdown_timeout to finish. Async tasks that take longer
are cancelled and run again later. Sync tasks that still run are released by the supervisor after their process has
exited; with --async they fail with ProcessExitError. QUIT, or Ctrl-C twice, is immediate.

Output: -v 0 shows only warnings and errors, -v 2 also the start and the end of each task. A terminal has colours (not
with NO_COLOR=1) and a status line (not with -v 0, TERM=dumb or --log-format json).
"""


class Command(BaseCommand):
    help = DESCRIPTION
    # The command runs these checks itself, to report all problems at once.
    requires_system_checks = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # If stdout or stderr is closed, Python sets it to None, and a file opened later would get its descriptor.
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, it stays open
        super().__init__(*args, **kwargs)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        parser: Any = super().create_parser(
            prog_name, subcommand, epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter, **kwargs
        )
        # So that options may be between the action and the ids: `run --rollback ID`.
        parser.parse_args = parser.parse_intermixed_args
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "action", nargs="?", default="run", choices=["run", "check", "health", "cancel"], help="default: run"
        )
        parser.add_argument(
            "ids", nargs="*", metavar="ID", help="the id of a stored task, for run; one or more for cancel"
        )
        what = parser.add_argument_group("what runs")
        what.add_argument(
            "--async",
            action=BooleanOptionalAction,
            help="run everything in one event loop; a worker with processes=N gets N-1 child processes",
        )
        what.add_argument(
            "--queues",
            metavar="A,B*",
            help="run one worker for these queues, in this order, instead of the configured workers",
        )
        what.add_argument(
            "--exclude-queues",
            metavar="A,B*",
            help="queues that no worker of this command serves, for example slow*; replaces exclude_queues of the "
            "settings",
        )
        what.add_argument(
            "--coroutines", metavar="N", help="number of async tasks that each worker runs at the same time"
        )
        what.add_argument("--threads", metavar="N", help="number of sync tasks that each worker runs at the same time")
        what.add_argument("--processes", metavar="N", help="number of processes of each worker")
        what.add_argument(
            "--only-work",
            action=BooleanOptionalAction,
            help="run no dispatchers and no recurring tasks; scheduled tasks need a dispatcher elsewhere",
        )
        what.add_argument("--skip-recurring", action=BooleanOptionalAction, help="do not enqueue recurring tasks")
        stops = parser.add_argument_group("when it stops")
        stops.add_argument(
            "--drain",
            action=BooleanOptionalAction,
            help="stop when its queues have no ready, blocked or running task, and none that is due within 5 s",
        )
        stops.add_argument("--max-tasks", metavar="N", help="replace a process after N tasks")
        stops.add_argument("--max-rss", metavar="MIB", help="replace a process when it uses MIB of memory")
        stops.add_argument(
            "--max-stuck-threads",
            metavar="N",
            help="replace a process when N of its threads run tasks that have timed out; by default all of a worker",
        )
        stops.add_argument("--reload", action="store_true", help="restart when the code changes; for development")
        output = parser.add_argument_group("output")
        output.add_argument(
            "--log-format",
            metavar="text|json",
            help="format of all output: text or json; unless LOGGING configures 'steady_queue'",
        )
        check = parser.add_argument_group("check")
        check.add_argument(
            "--stored", action="store_true", help="bind the arguments of each stored task to this code; start nothing"
        )
        check.add_argument("--failed", action="store_true", help="with --stored: look at failed tasks as well")
        check.add_argument("--json", action="store_true", help="with --stored, and for cancel: print one JSON object")
        replay = parser.add_argument_group("run ID")
        replay.add_argument("--rollback", action="store_true", help="roll back what the task writes to the databases")
        replay.add_argument("--pdb", action="store_true", help="start the debugger where the task raised its exception")
        replay.add_argument("--force", action="store_true", help="run the task although it runs now")
        add_cancel_options(parser)
        health = parser.add_argument_group("health")
        health.add_argument("--max-age", metavar="S", help="maximum age of the last successful poll, in seconds")

    @property
    def is_main(self) -> bool:
        """Whether the command line started this command, and not `call_command`."""
        return bool(getattr(self, "_called_from_command_line", False))

    def handle(self, *args: Any, **options: Any) -> None:
        orders = read_orders(os.environ)
        self.log_format = orders.options.log_format if orders is not None else find_log_format(options, os.environ)
        self.terminal_style = style_of(
            self.stderr, os.environ, no_color=bool(options["no_color"]), force_color=bool(options["force_color"])
        )
        if not self.terminal_style.is_coloured:  # Django does not know NO_COLOR
            self.style, self.stderr.style_func = no_style(), None
        try:
            if orders is not None:
                from steady_queue.aio.command import launch

                self._prepare_output(options)
                launch.run_child(orders)
            else:
                self._find_action(options)(options)
        except ConfigurationError as error:
            if self.log_format == "json" and self.is_main and options["action"] == "run":
                events.emit(events.CommandFailed(problem=str(error)))
                sys.exit(1)
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:  # before the signal handlers are installed
            sys.exit(130)

    def _find_action(self, options: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
        """What the command line asks for; raises CommandError if its parts do not belong together."""
        action, ids = options["action"], options["ids"]
        if len(ids) > (action == "run") and action != "cancel":
            raise CommandError("run takes one id" if action == "run" else f"{action} takes no ids")
        name = (
            "run ID"
            if ids and action == "run"
            else "check --stored"
            if action == "check" and options["stored"]
            else action
        )
        if (problem := find_misplaced(options, name)) is not None:
            raise CommandError(problem)
        return {
            "run": self.run,
            "run ID": self.replay,
            "check": self.check_all,
            "check --stored": self.check_stored,
            "health": self.health,
            "cancel": self.cancel,
        }[name]

    def replay(self, options: dict[str, Any]) -> None:
        """Run one stored task in this process."""
        from steady_queue.management.replay import run_stored

        self._prepare_output(options)
        if status := run_stored(self.stdout, self.stderr, options):
            sys.exit(status)

    def cancel(self, options: dict[str, Any]) -> None:
        """Cancel tasks."""
        from steady_queue.management.cancel import cancel

        self._exit_with(cancel, options)

    def check_stored(self, options: dict[str, Any]) -> None:
        """Report which stored tasks the code at hand could not run."""
        from steady_queue.management.stored_check import check_stored

        self._exit_with(check_stored, options)

    def _exit_with(self, action: Callable[..., int], options: dict[str, Any]) -> None:
        try:
            status = action(self.stdout, self.stderr, options)
        except SteadyQueueError as error:
            raise CommandError(str(error)) from error
        if status:
            sys.exit(status)

    def run(self, options: dict[str, Any]) -> None:
        """Run until a signal, or with --drain until the queues are empty."""
        if options["reload"]:
            from steady_queue.management import reloader

            if not reloader.follow_reloader(os.environ):
                sys.exit(reloader.Reloader(sys.stderr).run())
        terminal = self._prepare_output(options)
        resolved = self._resolve(options)
        from steady_queue.aio.command import launch
        from steady_queue.aio.command.pidfile import hold_pidfile

        with hold_pidfile(steady_queue.supervisor_pidfile) as release:
            self._announce(resolved, options["verbosity"])
            if resolved.in_one_loop:
                before_exit = release if self.is_main else None
                launch.run_in_one_loop(resolved, terminal=terminal, before_exit=before_exit)
            else:
                launch.run_supervisor(resolved, terminal=terminal, before_exit=release)

    def _prepare_output(self, options: dict[str, Any]) -> Terminal | None:
        """Configure logging; returns the terminal that is to show the status line, if there is one."""
        terminal = log_output.find_status_terminal(options, self.log_format, self.terminal_style)
        if terminal is not None and self.is_main:
            log_output.clear_before_output()
        log_output.configure_logging(options["verbosity"], self.log_format, self.terminal_style)
        return terminal

    def _announce(self, resolved: ResolvedOptions, verbosity: int) -> None:
        """Print the banner, or log it as JSON."""
        from steady_queue.management import banner

        if self.log_format == "json":
            events.emit(
                events.CommandStarted(
                    version=steady_queue.__version__,
                    database=banner.database_text(),
                    pid=os.getpid(),
                    runs=banner.one_line(resolved),
                )
            )
        elif verbosity >= 1:
            for line in banner.banner(resolved, self.terminal_style):
                self.stderr.write(line, unstyled)

    def check_all(self, options: dict[str, Any]) -> None:
        """Report all problems at once, and start nothing."""
        from steady_queue.checks import preflight

        try:
            resolved = resolve(read_options(), options, os.environ)
        except ConfigurationError:
            status, lines, problems = preflight.report()
        else:
            status, lines, problems = preflight.report(
                resolved.options, resolved.problems, resolved.named_queues, in_one_loop=resolved.in_one_loop
            )
        for line in lines:
            self.stdout.write(line)
        for line in problems:
            paint = self.terminal_style.yellow if line.startswith("warning: ") else self.terminal_style.red
            self.stderr.write(paint(line), unstyled)
        if status:
            sys.exit(status)

    def health(self, options: dict[str, Any]) -> None:
        """Report whether the processes of this machine poll for tasks."""
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

    def _resolve(self, options: dict[str, Any]) -> ResolvedOptions:
        """The options to run with; raises ConfigurationError with all problems that are found without the database."""
        from steady_queue.checks import preflight

        resolved = resolve(read_options(), options, os.environ)
        found = preflight.at_start(
            resolved.options, resolved.problems, resolved.named_queues, in_one_loop=resolved.in_one_loop
        )
        problems = list(found.errors)
        if not self.is_main and not resolved.in_one_loop:
            problems.append("call_command requires '--async': call_command('steady_queue', '--async')")
        elif not self.is_main and not problems and resolved.options.additional_processes():
            problems.append("call_command cannot start child processes: processes must be 1")
        if problems:
            raise ConfigurationError("\n".join(problems))
        for warning in found.warnings:
            if self.log_format == "json":
                events.emit(events.CheckWarning(problem=warning))
            else:
                self.stderr.write(self.terminal_style.yellow(f"warning: {warning}"), unstyled)
        return resolved


def find_log_format(options: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """The format in which problems of the options are reported, before the options are known to be valid."""
    try:
        return resolve(read_options(), {"log_format": options["log_format"]}, environ).options.log_format
    except ConfigurationError:
        return options["log_format"] or environ.get("STEADY_QUEUE_LOG_FORMAT") or "text"


def unstyled(text: str) -> str:
    """Instead of Django's style of stderr, which is red."""
    return text
