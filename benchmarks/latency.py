"""How soon an idle worker starts a task, from the commit of its enqueue in another process."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import asyncpg

from benchmarks import peerage
from benchmarks.contenders import Ours, Peer
from benchmarks.hands import Hand, HandError
from benchmarks.rounds import check
from benchmarks.tasks import anothing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.contenders import Contender
    from benchmarks.scene import Scene
    from tests.support.servers import Postgres

#: Between two tasks, and for a worker to become idle, in seconds.
EVERY, SETTLE = 0.05, 2.0
#: How long the last task may take, in seconds.
LAST_WITHIN = 30.0
TASKS = 200
#: Rounds that are pooled: percentiles want many tasks, and each task takes its time.
MOST_ROUNDS = 3
TAIL_BAR = 5.0


def section(scene: Scene) -> None:
    tasks = scene.few(TASKS)
    scene.figures.heading("latency", f"From commit to start, an idle worker, one task every {EVERY * 1000:.0f} ms")
    ours = "ours"
    sides = [ours, *(name for name in ("oban",) if peerage.find(name, scene))]
    delays: dict[str, list[float]] = {}
    commits: list[float] = []
    for _ in range(min(scene.rounds, MOST_ROUNDS)):
        commits += asyncio.run(_commits(scene.postgres, tasks))
        for side in sides:
            contender = Ours(ours, 0, "postgres", anothing) if side == ours else peerage.find(side, scene)
            assert contender is not None
            delays.setdefault(contender.label, []).extend(_delays(contender, tasks, scene))
    medians = {label: percentile(its, 0.5) for label, its in delays.items()}
    for label, its in delays.items():
        others = [value for other, value in medians.items() if other != ours]
        is_ours = label == ours
        scene.figures.add(
            f"{label}, p50", medians[label], "ms", bar=min(others) if is_ours and others else None, at_most=True
        )
        scene.figures.add(f"{label}, p99", percentile(its, 0.99), "ms", bar=TAIL_BAR if is_ours else None, at_most=True)
    # A start needs one of these, the claim's.
    for share in (0.5, 0.99):
        scene.figures.add(f"a bare durable commit, p{share * 100:.0f}", percentile(commits, share), "ms")


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that this share of them does not exceed."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def _delays(contender: Contender, tasks: int, scene: Scene) -> list[float]:
    """Milliseconds from each task's commit to its start."""
    contender.jobs = 0
    if isinstance(contender, Ours | Peer):
        contender.more |= {"starts": True}
    with contender.start() as worker:
        worker.hear("ready")
        worker.say("go")
        with _feeder(contender, tasks) as feeder:
            feeder.hear("ready")
            time.sleep(SETTLE)
            feeder.say("go")
            committed = dict(feeder.hear("fed"))
            contender.jobs = tasks
            report = finished(worker, contender)
    check(contender, report, scene.figures)
    return [(at - committed[number]) / 1e6 for number, at in report["starts"]]


async def _commits(server: Postgres, count: int) -> list[float]:
    """Milliseconds that the smallest insert takes, at the pace of the tasks."""
    account = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    connection = await asyncpg.connect(**account, database="postgres")
    took: list[float] = []
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS smallest (number int)")
        insert = await connection.prepare("INSERT INTO smallest VALUES (1)")
        for _ in range(count):
            await asyncio.sleep(EVERY)
            begun = time.monotonic_ns()
            await insert.fetch()
            took.append((time.monotonic_ns() - begun) / 1e6)
    finally:
        await connection.close()
    return took


def finished(worker: Hand, contender: Contender) -> dict[str, Any]:
    """The report of a worker that was fed all of its jobs, when it has run them."""
    deadline = time.monotonic() + LAST_WITHIN
    while True:
        report = worker.ask()
        if report["runs"] >= contender.jobs and contender.settled():
            return report
        if time.monotonic() > deadline:
            raise HandError(f"{contender.label} has started only {report['runs']} of {contender.jobs} tasks")
        time.sleep(EVERY)


def _feeder(contender: Contender, tasks: int) -> Hand:
    orders = {"role": "feed", "numbers": tasks, "every": EVERY}
    if isinstance(contender, Peer):
        return contender.hand(**orders, jobs=0, prepared=True)
    return Hand("benchmarks.our_worker", {**orders, "alias": "postgres"})
