"""What Django's log of tasks costs: no-op tasks with default logging, and with the framework's logger at WARNING."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django

from benchmarks.runtime.throughput import THREADS, add_rates
from benchmarks.support.rounds import alternate, ratio
from benchmarks.support.servers import version
from benchmarks.support.systems import COROUTINES, SteadyQueue
from benchmarks.tasks import async_noop, sync_noop
from steady_queue.jobs.compat import FRAMEWORK

if TYPE_CHECKING:
    from benchmarks.support.rounds import Context
    from steady_queue.jobs.definition.task import SteadyQueueTask

TARGET_RATIO = 0.9
DEFAULT, QUIET, DEBUG = "default logging", f"{FRAMEWORK} at WARNING", "with DEBUG"
#: How the settings of the worker process differ from those of a new project.
WORKER_OPTIONS = {DEFAULT: {}, QUIET: {"is_quiet": True}, DEBUG: {"is_debugging": True}}


def measure(context: Context) -> None:
    """Measure async tasks and sync tasks."""
    jobs = context.reduce(10_000)
    heading = f"No-op tasks in one process with Django {django.get_version()}, {version('postgres')}, {jobs:,} tasks"
    context.figures.start_section("logging", heading)
    _compare(context, "async", jobs, async_noop, coroutines=COROUTINES)
    _compare(context, "sync", jobs, sync_noop, threads=THREADS, coroutines=1)


def _compare(context: Context, name: str, jobs: int, task: SteadyQueueTask[..., Any], **worker: Any) -> None:
    systems = {}
    for variant, options in WORKER_OPTIONS.items():
        systems[variant] = SteadyQueue(f"{name}, {variant}", jobs, "postgres", task, **worker)
        systems[variant].extra_options = options
    rates, runs = alternate([systems[DEFAULT], systems[QUIET]], context.figures, context.rounds)
    add_rates(context, rates, runs)
    add_rates(context, *alternate([systems[DEBUG]], context.figures, 1))
    default, quiet = systems[DEFAULT].label, systems[QUIET].label
    what = f"{name}: {DEFAULT} / {QUIET}"
    context.figures.add(what, ratio(rates, default, quiet), "%", target=TARGET_RATIO)
    # Other load on the machine changes a rate much more than the CPU time of a task.
    tasks_per_cpu = {label: [1 / run.report["cpu"] for run in of_system] for label, of_system in runs.items()}
    context.figures.add(f"{what}, per CPU second", ratio(tasks_per_cpu, default, quiet), "%", target=TARGET_RATIO)
