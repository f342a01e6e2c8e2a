"""Prints the outcomes of the tasks, from the database and the recorder."""

from __future__ import annotations

from collections import defaultdict
from math import ceil
from typing import TYPE_CHECKING

from colours import style
from kitchen.ovens import Oven, ovens
from kitchen.tasks import taste

from steady_queue.store.job import Lane, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from show import Run

    from steady_queue.store.job import JobRecord


def print_table(run: Run) -> None:
    """Print one line for each task function."""
    kinds: dict[str, list[JobRecord]] = defaultdict(list)
    for job in run.jobs:
        kinds[job.task_path.rpartition(".")[2]].append(job)
    print(style.bold(f"{'task':<14}{'runs in':<10}{'finished':>8}{'failed':>8}{'p50':>12}{'p95':>12}{'p99':>12}"))
    for kind, jobs in kinds.items():
        where = "thread" if jobs[0].lane == Lane.THREAD else "loop"
        print(row(kind, where, jobs, run))
    print(row("all", "", run.jobs, run))
    print(style.dim("p50, p95, p99: time from due to started. The first two were enqueued before the"))
    print(style.dim("runtime started; bake waits for space in its oven."), end="\n\n")


def row(kind: str, where: str, jobs: Sequence[JobRecord], run: Run) -> str:
    finished = sum(job.status is Status.FINISHED for job in jobs)
    failed = sum(job.status is Status.FAILED for job in jobs)
    waits = sorted(
        (run.recorder.started_at[str(job.id)] - (job.scheduled_at or job.enqueued_at)).total_seconds()
        for job in jobs
        if str(job.id) in run.recorder.started_at
    )
    cells = "".join(f"{1000 * seconds:>9,.1f} ms" for seconds in percentiles(waits, 0.5, 0.95, 0.99))
    failures = f"{failed or '-':>8}"
    return f"{style.cyan(f'{kind:<14}')}{where:<10}{finished:>8,}{style.red(failures) if failed else failures}{cells}"


def percentiles(ascending: Sequence[float], *parts: float) -> list[float]:
    return [ascending[ceil(part * len(ascending)) - 1] for part in parts] if ascending else []


def label(text: str) -> str:
    return style.cyan(f"{text:<13}")


def print_summary(run: Run) -> None:
    """Print what is not in the table."""
    most = ", ".join(f"{name} {oven.most_loaves}" for name, oven in ovens.items())
    ended = sum(job.status in (Status.FINISHED, Status.FAILED) for job in run.jobs)
    rate = ended / run.seconds
    print(f"{label('Rate')}{ended:,} tasks in {run.seconds:.1f} s, {rate:.0f} per second, limited by the customers")
    print(f"{label('Concurrency')}at most {run.recorder.most_running} tasks at the same time")
    print(f"{label('Limit')}{Oven.ROOM} loaves per oven; maximum: {most}")
    opened = run.connections
    print(f"{label('Connections')}{opened.runtime} of the runtime, {opened.enqueueing} of aenqueue();", end=" ")
    print(f"Django's own in {len(opened.django)} threads")
    for job in [job for job in run.jobs if job.status is Status.FAILED][:1]:
        result = taste.get_result(str(job.id))
        print(f"{label('A failure')}taste({result.args[0]}): {result.errors[0].exception_class_path}")
    print()


def print_verdict(run: Run, problems: Sequence[str]) -> None:
    """Print whether all expectations are met, and what to read next."""
    for problem in problems:
        print(style.red(f"WRONG: {problem}"))
    if not problems:
        verdict = f"Proved: each of {len(run.jobs):,} tasks ran exactly once, and no limit was exceeded."
        print(style.green(verdict))
    print(f"\n{style.bold('Next:')}")
    print("  examples/bakery/kitchen/tasks.py  the tasks; day.py enqueues them")
    print("  examples/show.py                  how to start the runtime in a script")
    print("  README.md                         how to use it in your project")
    print("  make test                         the tests, on PostgreSQL, MariaDB and SQLite")
