"""The demo: enqueue, run, and tell what came of it."""

from __future__ import annotations

import asyncio
import platform
import sys
import time
from uuid import UUID

import django
import report
from kitchen import day
from loop import Worker

from steady_queue.compat import FRAMEWORK
from steady_queue.databases import django_driver
from steady_queue.store.result import find_jobs

DATABASE = "default"
GIVE_UP_AFTER_SECONDS = 60


def show() -> int:
    """Run the demo; returns the exit code."""
    print(f"Steady Queue on SQLite, Django {django.get_version()} ({FRAMEWORK}), Python {platform.python_version()}\n")
    print(f"Enqueueing {day.TASKS} tasks of a bakery")
    print(f"  {day.ORDERS:>4}  with enqueue(), each in the transaction of its order")
    print(f"  {day.RECEIPTS + day.DOUGHS:>4}  with enqueue_all(), in one transaction")
    print(f"  {2 * day.LOAVES:>4}  with aenqueue(), while the first are running")
    print(f"  {day.LOAVES:>4}  with aenqueue_all(), in one transaction")
    print(f"  {day.DELIVERIES:>4}  with aenqueue(), to run a second later\n")

    connections = report.ConnectionCounter()
    ids = day.morning()
    began = time.perf_counter()
    ids += asyncio.run(run())
    seconds = time.perf_counter() - began

    driver = django_driver(DATABASE)
    jobs = driver.run(find_jobs(driver.sql, [UUID(id_) for id_ in ids]))
    report.print_table(jobs)
    report.print_summary(jobs, seconds, connections)
    problems = report.find_problems(jobs, ids)
    report.print_ending(problems, len(jobs))
    return 1 if problems else 0


async def run() -> list[str]:
    """Run all tasks, and enqueue the second half of them meanwhile; returns their ids."""
    worker = Worker()
    try:
        async with asyncio.timeout(GIVE_UP_AFTER_SECONDS), asyncio.TaskGroup() as group:
            afternoon = group.create_task(day.afternoon())
            group.create_task(worker.run(DATABASE, until=lambda: worker.settled >= day.TASKS))
            group.create_task(show_progress(worker, day.TASKS))
    except TimeoutError:
        sys.exit(f"\nGave up after {GIVE_UP_AFTER_SECONDS} s: {worker.settled} of {day.TASKS} tasks have ended.")
    return afternoon.result()


async def show_progress(worker: Worker, total: int) -> None:
    """On a terminal one line that changes, elsewhere a line for each quarter."""
    began, quarter, is_terminal = time.perf_counter(), 1, sys.stdout.isatty()
    while True:
        done = worker.settled
        bar = f"[{'#' * (done * 40 // total):.<40}]"
        line = f"Running  {bar} {done:>3} of {total}  {time.perf_counter() - began:4.1f} s"
        if is_terminal:
            print(f"\r{line}", end="", flush=True)
        elif done * 4 >= quarter * total:
            quarter = done * 4 // total + 1
            print(line, flush=True)
        if done >= total:
            break
        await asyncio.sleep(0.05)
    print("\n" if is_terminal else "")
