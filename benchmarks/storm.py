"""Many connections that enqueue at once while a worker listens: what the notifications cost them."""

from __future__ import annotations

from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.backends import Backends
from benchmarks.contenders import Ours
from benchmarks.hands import Hand
from benchmarks.latency import finished
from benchmarks.race import ratio
from benchmarks.rounds import check
from benchmarks.tasks import anothing

if TYPE_CHECKING:
    from benchmarks.race import Rates
    from benchmarks.scene import Scene

#: Each enqueuer has as many connections as an event loop gets, and enough coroutines to keep them busy.
ENQUEUERS, CONNECTIONS, COROUTINES = 4, 4, 16
TASKS = 8_000
BAR = 0.85
ON, OFF = "notifications on", "notifications off"


def section(scene: Scene) -> None:
    each = scene.few(TASKS) // ENQUEUERS
    figures = scene.figures
    what = f"{ENQUEUERS * CONNECTIONS} connections of {ENQUEUERS} processes enqueueing at once, one worker listening"
    figures.heading("storm", what)
    rates: Rates = {ON: [], OFF: []}
    with Backends(scene.postgres) as backends:
        for _ in range(scene.rounds):
            for label, taken in rates.items():
                taken.append(_rate(label, each, scene))
    for label, taken in rates.items():
        figures.add(f"enqueued, {label}", median(taken))
    note = f"{backends.runtime} connections, 4 of them the worker's"
    figures.add("on / off", ratio(rates, ON, OFF), "%", bar=BAR, note=note)


def _rate(label: str, each: int, scene: Scene) -> float:
    notify = label == ON
    contender = Ours(f"ours, {label}", 0, "postgres", anothing)
    contender.more = {"notify": notify}
    total = ENQUEUERS * each
    with ExitStack() as stack:
        worker = stack.enter_context(contender.start())
        worker.hear("ready")
        worker.say("go")
        orders = {"role": "together", "alias": "postgres", "notify": notify, "numbers": each, "coroutines": COROUTINES}
        # One task more from each, so that its connections are open before the clock starts.
        hands = [
            stack.enter_context(Hand("benchmarks.our_worker", {**orders, "first": at * each, "warm": total + at}))
            for at in range(ENQUEUERS)
        ]
        for hand in hands:
            hand.hear("ready")
        for hand in hands:
            hand.say("go")
        begun, ended = zip(*(hand.hear("fed") for hand in hands), strict=True)
        contender.jobs = total + ENQUEUERS
        report = finished(worker, contender)
    check(contender, report, scene.figures)
    seconds: float = (max(ended) - min(begun)) / 1e9
    return total / seconds
