"""Async tasks that use Django's async ORM, on several lanes and on asgiref's single thread."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.backends import Backends
from benchmarks.contenders import COROUTINES, Ours
from benchmarks.race import ratio
from benchmarks.rounds import run, turns
from benchmarks.tasks import QUERIES, queries

if TYPE_CHECKING:
    from benchmarks.scene import Scene

LANES = 8
SLOW_QUERY = 0.005
GAIN_BAR, CONNECTIONS_BAR = 4.0, 8
#: Not slower: two equal things differ by so much from run to run.
INSTANT_BAR = 0.95
MANY, ONE = f"{LANES} lanes", "one lane"


def section(scene: Scene) -> None:
    _slow(scene)
    _instant(scene)


def _slow(scene: Scene) -> None:
    tasks = scene.few(COROUTINES)
    figures = scene.figures
    what = f"{tasks} tasks at once, {QUERIES} queries of {SLOW_QUERY * 1000:.0f} ms each through Django's async ORM"
    figures.heading("orm", what)
    with Backends(scene.postgres) as backends:
        many = run(_side(MANY, LANES, tasks, SLOW_QUERY), figures)
    one = run(_side(ONE, 1, tasks, SLOW_QUERY), figures)
    figures.add(MANY, many.seconds, "s")
    figures.add(ONE, one.seconds, "s")
    figures.add("one lane's time / that of 8", one.seconds / many.seconds, "times", bar=GAIN_BAR)
    figures.add("connections of the tasks", backends.tasks, "", bar=CONNECTIONS_BAR, at_most=True)


def _instant(scene: Scene) -> None:
    tasks = scene.few(2 * COROUTINES)
    figures = scene.figures
    figures.heading("orm", f"{tasks} tasks, {COROUTINES} at once, {QUERIES} instant queries each")
    sides = [_side(MANY, LANES, tasks, 0.0), _side(ONE, 1, tasks, 0.0)]
    rates, runs = turns(sides, figures, scene.rounds)
    for label in rates:
        figures.add(label, median(one.seconds for one in runs[label]), "s")
    figures.add(f"rate with {MANY} / with {ONE}", ratio(rates, MANY, ONE), "%", bar=INSTANT_BAR)


def _side(label: str, lanes: int, tasks: int, seconds: float) -> Ours:
    return Ours(label, tasks, "postgres", queries, [seconds], coroutines=COROUTINES, orm_lanes=lanes)
