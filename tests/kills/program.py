"""Runs tasks in processes that are killed, one after another: `python -m tests.kills.program ALIAS RUNS SEED`.

It prints a report as JSON. Its processes are forks, of a process without threads and connections: starting an
interpreter for each would take minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kills.killer import Point

#: How long a process may take for what it is to do.
TIMEOUT_SECONDS = 60.0


class State(NamedTuple):
    """The names of the rows that tasks wrote, and the ids of the jobs that have finished, in one snapshot."""

    rows: Counter[str]
    finished: set[str]


def main(alias: str, runs: int, seed: int) -> int:
    _set_up(alias)
    from tests.kills.killer import Point
    from tests.kills.tasks import TASKS

    random.seed(seed)
    names: dict[str, str] = {}
    wrong: list[str] = []
    kills: Counter[str] = Counter()

    def enqueue(kind: str) -> str:
        name = f"{kind} {len(names)}"
        result = TASKS[kind].enqueue(name)
        names[str(result.id)] = name
        return str(result.id)

    points: list[tuple[str, Point, str]] = []
    for kind in TASKS:
        job_id = enqueue(kind)
        statements = json.loads(_fork(partial(_run_until_finished, alias, [job_id], None)).output)
        for number, text in enumerate(statements):
            whens = ("before", "after", "during") if text == "COMMIT" else ("before", "after")
            points += [(kind, Point(when, number), text) for when in whens]
    chosen = [*points, *random.choices(points, k=max(0, runs - len(points)))]
    random.shuffle(chosen)
    for kind, point, text in chosen[:runs]:
        job_id = enqueue(kind)
        ended = _fork(partial(_run_until_finished, alias, [job_id], point))
        kills[f"{kind}: {point.when} {' '.join(text.split())[:60]}"] += ended.was_killed
        wrong += [f"{kind} killed {point}: {each}" for each in _find_disagreements(alias, names)]
    _fork(partial(_run_until_finished, alias, list(names), None))
    state = _read_state(alias)
    wrong += [f"{name} has {state.rows[name]} rows at the end" for name in names.values() if state.rows[name] != 1]
    wrong += [f"{name} is not finished" for job_id, name in names.items() if job_id not in state.finished]
    report = {"runs": len(chosen[:runs]), "points": len(points), "kills": dict(sorted(kills.items())), "wrong": wrong}
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


def _set_up(alias: str) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    os.environ["STEADY_QUEUE_TEST_DATABASES"] = alias
    import django
    from django.conf import settings

    import steady_queue

    steady_queue.database = alias
    steady_queue.process_heartbeat_interval = timedelta(seconds=0.2)
    backend: dict[str, Any] = {**settings.TASKS["default"], "OPTIONS": {"commit_with": alias}}
    settings.TASKS = {**settings.TASKS, "default": backend}
    django.setup()
    from steady_queue.aio.maintenance import maintenance

    maintenance.INTERVAL_SECONDS = 0.2


def _find_disagreements(alias: str, names: dict[str, str]) -> list[str]:
    """The tasks of which either the row or the outcome is stored, but not both, and rows that were written twice."""
    state = _read_state(alias)
    one_sided = [name for job_id, name in names.items() if (state.rows[name] > 0) != (job_id in state.finished)]
    twice = [name for name, number in state.rows.items() if number > 1]
    return [
        *(f"{name}: row {state.rows[name]}" for name in one_sided),
        *(f"{name} was written twice" for name in twice),
    ]


def _read_state(alias: str) -> State:
    from django.db import connections

    connection = connections[alias]
    id_text = "CAST(id AS char(36))" if connection.vendor != "postgresql" else "id::text"
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT 'row', name FROM shop_customer"
                f" UNION ALL SELECT 'job', {id_text} FROM steady_queue_job WHERE finished_at IS NOT NULL"
            )
            found = cursor.fetchall()
    finally:
        connection.close()  # a fork must not inherit it
    return State(
        Counter(value for kind, value in found if kind == "row"), {value for kind, value in found if kind == "job"}
    )


class Ended(NamedTuple):
    was_killed: bool
    output: str


def _fork(work: Callable[[], str]) -> Ended:
    """Do the work in a process of its own; returns whether it was killed, and what the work returned."""
    from django.db import connections

    connections.close_all()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        status = 1
        try:
            signal.alarm(int(TIMEOUT_SECONDS))
            os.write(writing, work().encode())
            status = 0
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        output = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return Ended(True, "")
    if status != 0:
        raise RuntimeError(f"a process ended with {status}")
    return Ended(False, output)


def _run_until_finished(alias: str, job_ids: list[str], point: Point | None) -> str:
    """Run tasks in this process until these have finished; returns the statements that the tasks executed."""
    from tests.kills.killer import Killer

    killer = Killer(alias, point)
    killer.watch()
    asyncio.run(_run(alias, job_ids))
    return json.dumps(killer.statements)


async def _run(alias: str, job_ids: list[str]) -> None:
    from steady_queue.actions import retry_where
    from steady_queue.aio import running
    from tests.support.runtime import in_thread, worker

    deadline = time.monotonic() + TIMEOUT_SECONDS
    async with running(worker(threads=2, coroutines=2)):
        while not set(job_ids) <= (await in_thread(_read_state, alias)).finished:
            assert time.monotonic() < deadline, "the tasks do not finish"
            await in_thread(retry_where)  # as a person does with tasks that are not retried automatically
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    arguments: list[Any] = sys.argv[1:]
    sys.exit(main(arguments[0], int(arguments[1]), int(arguments[2])))
