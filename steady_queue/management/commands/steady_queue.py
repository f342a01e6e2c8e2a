"""`manage.py steady_queue`: runs background tasks, checks the project, or shows and changes the queue."""

from __future__ import annotations

import os
import sys
from argparse import RawDescriptionHelpFormatter
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.core.management.color import no_style
from django.db import DatabaseError, InterfaceError

import steady_queue
from steady_queue import events
from steady_queue.aio.command.terminal import style_of
from steady_queue.aio.supervisor.child import read_orders
from steady_queue.configuration import read_options
from steady_queue.errors import ConfigurationError, SteadyQueueError
from steady_queue.management import arguments, log_output
from steady_queue.management.closed_pipe import ending_quietly
from steady_queue.management.options import find_misplaced, resolve

# Other modules are imported where they are used: a child, a probe and a supervisor each need few, and start quickly.

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Mapping

    from steady_queue.aio.command.terminal import Terminal
    from steady_queue.management.options import ResolvedOptions


class Command(BaseCommand):
    help = arguments.DESCRIPTION
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
            prog_name, subcommand, epilog=arguments.EPILOG, formatter_class=RawDescriptionHelpFormatter, **kwargs
        )
        # So that options may be between the action and the ids: `run --rollback ID`.
        parser.parse_args = parser.parse_intermixed_args
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        arguments.add_all(parser)

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
                self._act(options)
        except ConfigurationError as error:
            if self.log_format == "json" and self.is_main and options["action"] == "run":
                events.emit(events.CommandFailed(problem=str(error)))
                sys.exit(1)
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:  # before the signal handlers are installed
            sys.exit(130)

    def _act(self, options: dict[str, Any]) -> None:
        """Do what the command line asks for."""
        action = self._find_action(options)
        # A process that runs tasks continues if its output is closed.
        runs_tasks = options["action"] == "run" and not options["ids"]
        with nullcontext() if runs_tasks or not self.is_main else ending_quietly():
            action(options)

    def _find_action(self, options: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
        """What the command line asks for; raises CommandError if its parts do not belong together."""
        action, ids = options["action"], options["ids"]
        if len(ids) > arguments.MAX_IDS.get(action, len(ids)):
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
            "status": self.status,
            "jobs": self.jobs,
            "queues": self.queues,
            "processes": self.processes,
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

    def status(self, options: dict[str, Any]) -> None:
        """Show the queue at a glance."""
        from steady_queue.management.status import show_status

        self._exit_with(show_status, options)

    def jobs(self, options: dict[str, Any]) -> None:
        """List tasks, show one, or change them."""
        from steady_queue.management.job_commands import handle_jobs

        self._exit_with(handle_jobs, options)

    def queues(self, options: dict[str, Any]) -> None:
        """List queues, or change them."""
        from steady_queue.management.queue_commands import handle_queues

        self._exit_with(handle_queues, options)

    def processes(self, options: dict[str, Any]) -> None:
        """List processes, or stop them."""
        from steady_queue.management.process_commands import handle_processes

        self._exit_with(handle_processes, options)

    def check_stored(self, options: dict[str, Any]) -> None:
        """Report which stored tasks the code at hand could not run."""
        from steady_queue.management.stored_check import check_stored

        self._exit_with(check_stored, options)

    def _exit_with(self, action: Callable[..., int], options: dict[str, Any]) -> None:
        try:
            status = action(self.stdout, self.stderr, options)
        except SteadyQueueError as error:
            raise CommandError(str(error)) from error
        except (DatabaseError, InterfaceError) as error:
            raise CommandError(f"the database cannot be read: {error}") from error
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
