"""What became of the demo's tasks, as the database tells it."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from math import ceil
from typing import TYPE_CHECKING, Any

from django.db.backends.signals import connection_created
from kitchen import day
from kitchen.models import Order
from kitchen.tasks import LOAVES_PER_OVEN, most_loaves_in, print_label, taste

from steady_queue.models import Job
from steady_queue.store.job import Lane, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.store.job import JobRecord


def print_table(jobs: Sequence[JobRecord]) -> None:
    """One line for each kind of task."""
    kinds: dict[str, list[JobRecord]] = defaultdict(list)
    for job in jobs:
        kinds[job.task_path.rpartition(".")[2]].append(job)
    print(f"{'task':<14}{'runs in':<10}{'finished':>8}{'failed':>9}{'p50':>11}{'p95':>11}{'p99':>11}")
    for kind, those in kinds.items():
        print_row(kind, "thread" if those[0].lane == Lane.THREAD else "loop", those)
    print_row("all", "", jobs)
    print("p50, p95, p99: from enqueued to ended; deliver was to wait for a second\n")


def print_row(kind: str, where: str, jobs: Sequence[JobRecord]) -> None:
    finished = sum(job.status is Status.FINISHED for job in jobs)
    failed = sum(job.status is Status.FAILED for job in jobs)
    took = sorted(end - job.enqueued_at for job in jobs if (end := job.finished_at or job.failed_at))
    times = [took[ceil(part * len(took)) - 1].total_seconds() for part in (0.5, 0.95, 0.99)] if took else []
    row = f"{kind:<14}{where:<10}{finished:>8}{failed or '-':>9}"
    print(row + "".join(f"{1000 * seconds:>8,.0f} ms" for seconds in times))


def print_summary(jobs: Sequence[JobRecord], seconds: float, connections: ConnectionCounter) -> None:
    """What the table cannot tell."""
    ovens = ", ".join(f"{oven} {most}" for oven, most in sorted(most_loaves_in.items()))
    print(f"Rate         {len(jobs)} tasks in {seconds:.1f} s, {len(jobs) / seconds:.0f} a second")
    print(f"Limit        {LOAVES_PER_OVEN} loaves in an oven; the most at once: {ovens}")
    print(f"Connections  {connections.queue} of the queue's own; Django's own in {len(connections.threads)} threads")
    for job in [job for job in jobs if job.status is Status.FAILED][:1]:
        result = taste.get_result(str(job.id))
        print(f"A failure    taste({result.args[0]}): {result.errors[0].exception_class_path}")
    print()


def find_problems(jobs: Sequence[JobRecord], ids: Sequence[str]) -> list[str]:
    """What is not as it must be."""
    counts = {status.value: sum(job.status is status for job in jobs) for status in Status}
    expected = dict.fromkeys(counts, 0) | {"finished": day.TASKS - day.BURNT, "failed": day.BURNT}
    checks = {
        f"of {day.TASKS} tasks {len(set(ids))} were enqueued": len(set(ids)) == day.TASKS,
        f"of {len(ids)} tasks {len(jobs)} are in the database": len(jobs) == len(ids),
        f"the tasks stand at {counts}": counts == expected,
        "a task did not run once": all(job.attempts == 1 for job in jobs),
        "an order has no label": Order.objects.filter(labelled_at=None).count() == 0,
        "the order that was rolled back left a task": Job.objects.count() == day.TASKS,
        "an oven held too many loaves": max(most_loaves_in.values(), default=0) <= LOAVES_PER_OVEN,
        "an express label came after another": express_came_first(jobs),
    }
    return [problem for problem, is_right in checks.items() if not is_right]


def express_came_first(jobs: Sequence[JobRecord]) -> bool:
    """Whether the labels were begun in the order of their priorities."""
    labels = [(job.started_at, -job.priority) for job in jobs if job.task_path == print_label.module_path]
    order = [priority for started_at, priority in sorted(label for label in labels if label[0])]
    return order == sorted(order)


def print_ending(problems: Sequence[str], count: int) -> None:
    """The verdict, and where to read on."""
    for problem in problems:
        print(f"WRONG: {problem}")
    if not problems:
        print(f"Nothing was lost: {count} tasks were enqueued, each ran once.")
    print("\nGo on:")
    print("  examples/bakery/kitchen/tasks.py  the tasks; day.py beside it enqueues them")
    print("  examples/loop.py                  how a worker claims, runs and settles")
    print("  README.md                         how to use it in your project")
    print("  make test                         the tests, on PostgreSQL, MariaDB and SQLite")


class ConnectionCounter:
    """Counts connections from now on: Django tells of its own, the interpreter of all."""

    def __init__(self) -> None:
        self.all = 0
        self.django = 0
        self.threads: set[int] = set()
        connection_created.connect(self._django_connected)
        sys.addaudithook(self._audit)

    @property
    def queue(self) -> int:
        return self.all - self.django

    def _audit(self, event: str, args: Any) -> None:
        if event == "sqlite3.connect":
            self.all += 1

    def _django_connected(self, **kwargs: Any) -> None:
        self.django += 1
        self.threads.add(threading.get_ident())
