"""`manage.py steady_queue_clear`: deletes old finished and failed tasks."""

from __future__ import annotations

import sys
from argparse import RawDescriptionHelpFormatter
from typing import TYPE_CHECKING, Any, NamedTuple

from django.core.management.base import BaseCommand, CommandError

from steady_queue.actions import cleanup
from steady_queue.actions.filters import parse_before
from steady_queue.errors import SteadyQueueError
from steady_queue.events.wording import counted
from steady_queue.management.progress_bar import ProgressBar

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Mapping

    from steady_queue.store.operations.actions.cleanup import EndedFilter

DESCRIPTION = """\
Deletes old finished and failed tasks. Never deletes waiting or running tasks.

  manage.py steady_queue_clear --finished-before 7d
  manage.py steady_queue_clear --failed-before 2026-01-31 --queue mail --dry-run
"""


class Part(NamedTuple):
    """Finished or failed tasks, and the filter that selects those to delete."""

    name: str
    filter: EndedFilter
    count: Callable[[EndedFilter], int]
    clear: Callable[..., int]


class Command(BaseCommand):
    help = DESCRIPTION

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(prog_name, subcommand, formatter_class=RawDescriptionHelpFormatter, **kwargs)

    def add_arguments(self, parser: ArgumentParser) -> None:
        when = "a date, a time, or an age such as 7d, 12h or 30m"
        parser.add_argument("--finished-before", metavar="WHEN", help=f"delete tasks that finished before WHEN: {when}")
        parser.add_argument("--failed-before", metavar="WHEN", help="delete tasks that failed before WHEN")
        parser.add_argument("--queue", metavar="NAME", help="delete only tasks of this queue")
        parser.add_argument("--task", metavar="PATH", help="delete only this task, for example shop.tasks.send_mail")
        parser.add_argument("--dry-run", action="store_true", help="only print how many tasks would be deleted")
        parser.add_argument(
            "--batch", metavar="N", default="500", help="number of tasks per transaction (default: 500)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        problems: list[str] = []
        parts = _parts(options, problems)
        batch = _batch(options["batch"], problems)
        if problems:
            raise CommandError("\n".join(problems))
        try:
            for part in parts:
                if options["dry_run"]:
                    self.stdout.write(f"{_count_text(part.count(part.filter), part.name)} would be deleted")
                else:
                    self.stdout.write(f"{_count_text(self._clear(part, batch, options), part.name)} deleted")
        except SteadyQueueError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self.stderr.write("stopped; tasks that were already deleted stay deleted")
            sys.exit(130)

    def _clear(self, part: Part, batch: int, options: Mapping[str, Any]) -> int:
        if options["verbosity"] < 1 or not self.stderr.isatty():
            return part.clear(part.filter, batch=batch)
        bar = ProgressBar(sys.stderr, part.name, part.count(part.filter))
        try:
            return part.clear(part.filter, batch=batch, progress=bar.advance)
        finally:
            bar.end()


def _parts(options: Mapping[str, Any], problems: list[str]) -> list[Part]:
    """The tasks to delete; adds to `problems` what is wrong with the options."""
    parts = []
    kinds = {
        "finished": (cleanup.count_finished, cleanup.clear_finished),
        "failed": (cleanup.count_failed, cleanup.clear_failed),
    }
    if not any(options[f"{name}_before"] is not None for name in kinds):
        problems.append("nothing to delete: set --finished-before, --failed-before or both")
    for what in ("queue", "task"):
        try:
            cleanup.build_ended_filter(parse_before("0s"), **{what: options[what]})
        except ValueError as error:
            problems.append(f"--{what}: {error}")
    for name, (count, clear) in kinds.items():
        if (text := options[f"{name}_before"]) is None:
            continue
        try:
            moment = parse_before(text)
        except ValueError as error:
            problems.append(f"--{name}-before {error}")
        else:
            if not problems:
                parts.append(
                    Part(name, cleanup.build_ended_filter(moment, options["queue"], options["task"]), count, clear)
                )
    return parts


def _batch(text: str, problems: list[str]) -> int:
    try:
        batch = int(text)
    except ValueError:
        batch = 0
    if batch < 1:
        problems.append(f"--batch must be an integer of at least 1, not {text!r}")
    return batch


def _count_text(count: int, name: str) -> str:
    return counted(count, f"{name} task")
