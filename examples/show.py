"""Runs the demonstration: enqueue, run, report."""

from __future__ import annotations

import asyncio
import logging
import platform
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

import django
from colours import style
from kitchen import day
from progress import Progress
from proof import find_problems
from recorder import Connections, Recorder
from report import print_summary, print_table, print_verdict

from steady_queue.aio import running
from steady_queue.db.aliases import django_driver, queue_alias
from steady_queue.jobs.compat import FRAMEWORK
from steady_queue.store.operations.results import find_jobs

if TYPE_CHECKING:
    from steady_queue.store.job import JobRecord

GIVE_UP_AFTER_SECONDS = 60


@dataclass
class Run:
    """The data of one run of the demonstration."""

    recorder: Recorder = field(default_factory=Recorder)
    connections: Connections = field(default_factory=Connections)
    seconds: float = 0.0
    ids: list[str] = field(default_factory=list)
    jobs: list[JobRecord] = field(default_factory=list)


def show() -> int:
    """Run the demonstration; returns the exit code."""
    logging.getLogger(FRAMEWORK).setLevel(logging.CRITICAL)  # some tasks fail on purpose: the table counts them
    print_plan()
    run = Run()
    run.ids = day.morning()
    run.ids += asyncio.run(run_tasks(run))
    driver = django_driver(queue_alias())
    run.jobs = driver.run(find_jobs(driver.sql, [UUID(id_) for id_ in run.ids]))
    print_table(run)
    print_summary(run)
    problems = find_problems(run)
    print_verdict(run, problems)
    return 1 if problems else 0


async def run_tasks(run: Run) -> list[str]:
    """Run all tasks in this event loop, and enqueue most of them at the same time; returns the ids of those.

    At the end of its block, `running()` waits for running tasks and writes their outcomes.
    """
    began = time.perf_counter()
    async with running():
        run.connections.runtime_started()
        try:
            async with asyncio.timeout(GIVE_UP_AFTER_SECONDS), asyncio.TaskGroup() as group:
                afternoon = group.create_task(day.afternoon())
                group.create_task(Progress(day.TASKS, run.recorder).show())
        except TimeoutError:
            print(f"Gave up after {GIVE_UP_AFTER_SECONDS} s.\n")
        run.seconds = time.perf_counter() - began
        run.connections.runtime_stops()
    return [] if afternoon.cancelled() else afternoon.result()


def print_plan() -> None:
    versions = f"Django {django.get_version()} ({FRAMEWORK}), Python {platform.python_version()}"
    print(f"{style.bold('Steady Queue')} on {style.cyan('SQLite')}, {versions}\n")
    print(f"A bakery enqueues {day.TASKS:,} tasks")
    for count, how in (
        (day.IN_TRANSACTIONS, "with enqueue(), each in the transaction of its order"),
        (day.IN_ONE_TRANSACTION, "with enqueue_all(), in one transaction"),
        (day.ONE_BY_ONE, "with aenqueue(), while tasks run; half of them with a delay"),
        (day.IN_BULK, f"with aenqueue_all(), while tasks run, in {day.WAVES} transactions"),
    ):
        print(f"  {style.green(f'{count:>5}')}  {how}")
    print()
