"""What the framework's log costs: no-op tasks with logging as installed, and with the framework's logger at WARNING."""

from __future__ import annotations

from typing import TYPE_CHECKING

import django

from benchmarks.contenders import COROUTINES, Ours
from benchmarks.race import ratio
from benchmarks.rounds import turns
from benchmarks.servers import version
from benchmarks.tasks import anothing, nothing
from benchmarks.throughput import THREADS, record
from steady_queue.compat import FRAMEWORK

if TYPE_CHECKING:
    from benchmarks.scene import Scene

INSTALLED_BAR = 0.9
#: How the process that works is told to differ from a project as installed.
VARIANTS = {"as installed": {}, f"{FRAMEWORK} at WARNING": {"is_quiet": True}, "with DEBUG": {"is_debugging": True}}
INSTALLED, QUIET, _ = VARIANTS


def section(scene: Scene) -> None:
    """The rates of async and of sync tasks."""
    jobs = scene.few(20_000)
    heading = f"No-op tasks in one process with Django {django.get_version()}, {version('postgres')}, {jobs:,} tasks"
    scene.figures.heading("logging", heading)
    for name, task, share, worker in (
        ("async", anothing, 1, {"coroutines": COROUTINES}),
        ("sync", nothing, 2, {"threads": THREADS, "coroutines": 1}),
    ):
        contenders = []
        for variant, orders in VARIANTS.items():
            contender = Ours(f"{name}, {variant}", jobs // share, "postgres", task, **worker)
            contender.more = orders
            contenders.append(contender)
        rates, runs = turns(contenders, scene.figures, scene.rounds)
        record(scene, rates, runs)
        share_of_quiet = ratio(rates, f"{name}, {INSTALLED}", f"{name}, {QUIET}")
        scene.figures.add(f"{name}: {INSTALLED} / {QUIET}", share_of_quiet, "%", bar=INSTALLED_BAR)
