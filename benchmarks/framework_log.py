"""What the framework's log costs: no-op tasks with logging as installed, and with the framework's logger at WARNING."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django

from benchmarks.contenders import COROUTINES, Ours
from benchmarks.race import ratio
from benchmarks.rounds import turns
from benchmarks.servers import version
from benchmarks.tasks import anothing, nothing
from benchmarks.throughput import THREADS, record
from steady_queue.jobs.compat import FRAMEWORK

if TYPE_CHECKING:
    from benchmarks.scene import Scene
    from steady_queue.jobs.task import SteadyQueueTask

INSTALLED_BAR = 0.9
INSTALLED, QUIET, DEBUG = "as installed", f"{FRAMEWORK} at WARNING", "with DEBUG"
#: How the settings of the worker process differ from those of a new project.
ORDERS = {INSTALLED: {}, QUIET: {"is_quiet": True}, DEBUG: {"is_debugging": True}}


def section(scene: Scene) -> None:
    """The rates of async and of sync tasks."""
    jobs = scene.few(10_000)
    heading = f"No-op tasks in one process with Django {django.get_version()}, {version('postgres')}, {jobs:,} tasks"
    scene.figures.heading("logging", heading)
    _compare(scene, "async", jobs, anothing, coroutines=COROUTINES)
    _compare(scene, "sync", jobs, nothing, threads=THREADS, coroutines=1)


def _compare(scene: Scene, name: str, jobs: int, task: SteadyQueueTask[..., Any], **worker: int) -> None:
    contenders = {}
    for variant, orders in ORDERS.items():
        contenders[variant] = Ours(f"{name}, {variant}", jobs, "postgres", task, **worker)
        contenders[variant].more = orders
    rates, runs = turns([contenders[INSTALLED], contenders[QUIET]], scene.figures, scene.rounds)
    record(scene, rates, runs)
    record(scene, *turns([contenders[DEBUG]], scene.figures, 1))
    installed, quiet = contenders[INSTALLED].label, contenders[QUIET].label
    scene.figures.add(f"{name}: {INSTALLED} / {QUIET}", ratio(rates, installed, quiet), "%", bar=INSTALLED_BAR)
    # What others do on the machine meets a rate much harder than the CPU that a task takes.
    cpu = {label: [1 / one.report["cpu"] for one in its] for label, its in runs.items()}
    scene.figures.add(f"{name}: tasks for the same CPU", ratio(cpu, installed, quiet), "%", bar=INSTALLED_BAR)
