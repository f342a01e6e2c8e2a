"""Async tasks that use Django's async ORM: on several ORM lanes, and on one, as with asgiref's single thread."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.support.connections import ConnectionCounter
from benchmarks.support.rounds import alternate, ratio, run_once
from benchmarks.support.systems import COROUTINES, SteadyQueue
from benchmarks.tasks import QUERIES, async_queries

if TYPE_CHECKING:
    from benchmarks.support.rounds import Context

LANES = 8
SLOW_QUERY_SECONDS = 0.005
TARGET_SPEEDUP, TARGET_CONNECTIONS = 4.0, 8
#: Not slower; two equal measurements differ by 5 %.
TARGET_INSTANT_RATIO = 0.95
SEVERAL, ONE = f"{LANES} ORM lanes", "1 ORM lane"


def measure(context: Context) -> None:
    _measure_slow_queries(context)
    _measure_instant_queries(context)


def _measure_slow_queries(context: Context) -> None:
    tasks = context.reduce(COROUTINES)
    figures = context.figures
    milliseconds = SLOW_QUERY_SECONDS * 1000
    heading = f"{tasks} tasks at once, each with {QUERIES} queries of {milliseconds:.0f} ms through Django's async ORM"
    figures.start_section("orm", heading)
    with ConnectionCounter(context.postgres) as connections:
        several = run_once(_build_system(SEVERAL, LANES, tasks, SLOW_QUERY_SECONDS), figures)
    one = run_once(_build_system(ONE, 1, tasks, SLOW_QUERY_SECONDS), figures)
    figures.add(SEVERAL, several.seconds, "s")
    figures.add(ONE, one.seconds, "s")
    figures.add(f"time with {ONE} / {SEVERAL}", one.seconds / several.seconds, "times", target=TARGET_SPEEDUP)
    figures.add("connections of the tasks", connections.tasks, "", target=TARGET_CONNECTIONS, at_most=True)


def _measure_instant_queries(context: Context) -> None:
    tasks = context.reduce(2 * COROUTINES)
    figures = context.figures
    figures.start_section("orm", f"{tasks} tasks, {COROUTINES} at once, each with {QUERIES} instant queries")
    systems = [_build_system(SEVERAL, LANES, tasks, 0.0), _build_system(ONE, 1, tasks, 0.0)]
    rates, runs = alternate(systems, figures, context.rounds)
    for label in rates:
        figures.add(label, median(run.seconds for run in runs[label]), "s")
    figures.add(f"rate with {SEVERAL} / {ONE}", ratio(rates, SEVERAL, ONE), "%", target=TARGET_INSTANT_RATIO)


def _build_system(label: str, lanes: int, tasks: int, query_seconds: float) -> SteadyQueue:
    return SteadyQueue(label, tasks, "postgres", async_queries, [query_seconds], coroutines=COROUTINES, orm_lanes=lanes)
