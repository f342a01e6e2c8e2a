"""What became of the demo's tasks, as the database and the witness tell it."""

from __future__ import annotations

from collections import defaultdict
from math import ceil
from typing import TYPE_CHECKING

from kitchen.ovens import Oven, ovens
from kitchen.tasks import taste

from steady_queue.store.job import Lane, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from show import Run

    from steady_queue.store.job import JobRecord


def print_table(run: Run) -> None:
    """One line for each kind of task."""
    kinds: dict[str, list[JobRecord]] = defaultdict(list)
    for job in run.jobs:
        kinds[job.task_path.rpartition(".")[2]].append(job)
    print(f"{'task':<14}{'runs in':<10}{'finished':>8}{'failed':>8}{'p50':>12}{'p95':>12}{'p99':>12}")
    for kind, jobs in kinds.items():
        where = "thread" if jobs[0].lane == Lane.THREAD else "loop"
        print(row(kind, where, jobs, run))
    print(row("all", "", run.jobs, run))
    print("p50, p95, p99: from due to started. The first two kinds had been waiting when")
    print("the runtime started; bake waits for room in its oven.\n")


def row(kind: str, where: str, jobs: Sequence[JobRecord], run: Run) -> str:
    finished = sum(job.status is Status.FINISHED for job in jobs)
    failed = sum(job.status is Status.FAILED for job in jobs)
    waits = sorted(
        (run.witness.started_at[str(job.id)] - (job.scheduled_at or job.enqueued_at)).total_seconds()
        for job in jobs
        if str(job.id) in run.witness.started_at
    )
    cells = "".join(f"{1000 * seconds:>9,.1f} ms" for seconds in percentiles(waits, 0.5, 0.95, 0.99))
    return f"{kind:<14}{where:<10}{finished:>8,}{failed or '-':>8}{cells}"


def percentiles(ascending: Sequence[float], *parts: float) -> list[float]:
    return [ascending[ceil(part * len(ascending)) - 1] for part in parts] if ascending else []


def print_summary(run: Run) -> None:
    """What the table cannot tell."""
    most = ", ".join(f"{name} {oven.most_loaves}" for name, oven in ovens.items())
    ended = sum(job.status in (Status.FINISHED, Status.FAILED) for job in run.jobs)
    rate = ended / run.seconds
    print(f"Rate         {ended:,} tasks in {run.seconds:.1f} s, {rate:.0f} a second; customers set the pace")
    print(f"At once      {run.witness.most_running} tasks at most")
    print(f"Limit        {Oven.ROOM} loaves in an oven; the most at once: {most}")
    opened = run.connections
    print(f"Connections  {opened.runtime} of the runtime, {opened.enqueueing} of aenqueue();", end=" ")
    print(f"Django's own in {len(opened.django)} threads")
    for job in [job for job in run.jobs if job.status is Status.FAILED][:1]:
        result = taste.get_result(str(job.id))
        print(f"A failure    taste({result.args[0]}): {result.errors[0].exception_class_path}")
    print()


def print_verdict(run: Run, problems: Sequence[str]) -> None:
    """Whether all is as it must be, and where to read on."""
    for problem in problems:
        print(f"WRONG: {problem}")
    if not problems:
        print(f"Proved: each of {len(run.jobs):,} tasks ran exactly once, and no limit was exceeded.")
    print("\nGo on:")
    print("  examples/bakery/kitchen/tasks.py  the tasks; day.py beside it enqueues them")
    print("  examples/show.py                  how the runtime is started inside a script")
    print("  README.md                         how to use it in your project")
    print("  make test                         the tests, on PostgreSQL, MariaDB and SQLite")
