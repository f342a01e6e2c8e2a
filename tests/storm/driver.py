"""The driver: enqueues tasks, injects the seed's faults into the workers, then waits until all tasks have ended."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from math import inf
from random import Random
from typing import TYPE_CHECKING, Literal, TypeAlias

from django.db import connections

from steady_queue import enqueue_all
from tests.storm.control_tasks import Canceller, control_call
from tests.storm.tasks import any_call, limited_call
from tests.storm.worker_program import ALIVE_SECONDS, LEASE_SECONDS
from tests.storm.workers import Worker
from tests.support.databases.tables import query
from tests.support.threads import closing as closing_connections

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from steady_queue.jobs.definition.task import TaskCall
    from tests.storm.workers import WorkerLife

#: Seconds after the last fault within which a task ends and dead processes are pruned; those for a worker to start.
CALM_SECONDS = 30.0
START_SECONDS = 15.0
#: Seconds to wait for SQLite's write lock before the frozen process is assumed to hold it.
LOCK_SECONDS = 0.5
LOOK_SECONDS = 0.02

Fault: TypeAlias = Literal["kill", "terminate", "freeze"]
#: How often each fault is chosen, relative to the others.
WEIGHTS: dict[Fault, int] = {"kill": 5, "terminate": 4, "freeze": 2}

UNENDED = """SELECT count(*) FROM steady_queue_job
    WHERE finished_at IS NULL AND id NOT IN (SELECT job_id FROM steady_queue_failedexecution)"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a storm is made of."""

    alias: str
    seed: int
    seconds: float
    tasks: int
    workers: int = 2
    #: The faults of the workers.
    faults: tuple[Fault, ...] = ("kill", "terminate", "freeze")
    call: Callable[[Random], TaskCall] = any_call
    #: Whether some tasks are cancelled.
    cancels: bool = False


def limits_plan(alias: str, seed: int, seconds: float, tasks: int) -> Plan:
    """Eight workers that are killed amid tasks of which 1, 2 or 10 may run at once."""
    return Plan(alias, seed, seconds, tasks, workers=8, faults=("kill",), call=limited_call)


def control_plan(alias: str, seed: int, seconds: float, tasks: int) -> Plan:
    """Three workers that are killed or terminated amid retries, timeouts, cancellations, expiries and unique keys."""
    faults: tuple[Fault, ...] = ("kill", "terminate")
    return Plan(alias, seed, seconds, tasks, workers=3, faults=faults, call=control_call, cancels=True)


class Storm:
    """One storm, from the first worker's start to the last one's end."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        self.attempt_log_path = directory / "attempts.log"
        #: The ids of the tasks that were stored, with the names of their functions.
        self.enqueued: dict[str, str] = {}
        self.lives: list[WorkerLife] = []
        #: When the remaining workers were terminated at the end.
        self.closed = inf
        #: How often a process was thawed at once, because it held SQLite's only lock.
        self.spared = 0
        self._directory = directory
        self._random = Random(f"{plan.seed}/faults")
        self._workers = [self._start() for _ in range(plan.workers)]
        #: Each injects the fault of its name, and returns whether it could.
        faults: dict[Fault, Callable[[Worker], bool]] = {
            "kill": self._kill,
            "terminate": self._terminate,
            "freeze": self._freeze,
        }
        self._faults = [faults[name] for name in plan.faults]
        self._weights = [WEIGHTS[name] for name in plan.faults]

    def run(self) -> None:
        try:
            within = START_SECONDS * self.plan.workers
            self._until(
                lambda: all(worker.is_up for worker in self._workers), "all workers have started", within=within
            )
            with ThreadPoolExecutor(1) as thread:
                # In a thread: a frozen process may hold a lock that an enqueue waits for, and this thread thaws it.
                enqueueing = thread.submit(closing_connections, self._enqueue)
                try:
                    self._inject_faults()
                finally:
                    for worker in self._workers:
                        worker.thaw()
                enqueueing.result()
            self._wait_until_calm()
            self._close()
        finally:
            for worker in self._workers:
                worker.kill()

    def _start(self) -> Worker:
        worker = Worker(self.plan.alias, self._directory, len(self.lives))
        self.lives.append(worker.life)
        return worker

    def _restart_exited(self) -> None:
        """Restart the workers that have exited, and kill those that are stuck."""
        for at, worker in enumerate(self._workers):
            if worker.is_stuck:
                worker.life.is_stuck = True
                worker.kill()
            if worker.has_exited:
                self._workers[at] = self._start()

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._restart_exited()
            time.sleep(LOOK_SECONDS)

    def _until(
        self, condition: Callable[[], bool], what: str, *, within: float = CALM_SECONDS, may_fail: bool = False
    ) -> None:
        deadline = time.monotonic() + within
        while not condition():
            if time.monotonic() > deadline:
                assert may_fail, f"timed out until {what}"
                return
            self._pause(LOOK_SECONDS)

    # -- tasks --------------------------------------------------------------------------------------------------------

    def _enqueue(self) -> None:
        random = Random(f"{self.plan.seed}/tasks")
        calls = [self.plan.call(random) for _ in range(self.plan.tasks)]
        cancel = Canceller(random) if self.plan.cancels else None
        began = time.monotonic()
        while calls:
            some = [calls.pop() for _ in range(min(len(calls), random.randint(1, 8)))]
            self.enqueued.update((result.id, result.task.name) for result in enqueue_all(some))
            if cancel is not None:
                cancel(list(self.enqueued)[-20:])
            share = 1 - len(calls) / self.plan.tasks
            time.sleep(max(0.0, began + share * self.plan.seconds * 0.9 - time.monotonic()))

    def _wait_until_calm(self) -> None:
        """Return when all is calm, or stuck: a long time in which no task has ended, however many are left."""
        before, left = inf, self._unended()
        while left < before:
            self._until(partial(self._has_moved, left), "a task has ended", may_fail=True)
            before, left = left, self._unended()

    def _has_moved(self, left: int) -> bool:
        return self._unended() < left or self._is_calm()

    def _unended(self) -> int:
        return int(query(self.plan.alias, UNENDED)[0][0])

    def _is_calm(self) -> bool:
        """Whether all tasks have ended, and exactly the running processes are registered."""
        if self._unended() or not all(worker.is_up for worker in self._workers):
            return False
        registered = query(self.plan.alias, "SELECT pid FROM steady_queue_process")
        return sorted(pid for (pid,) in registered) == sorted(worker.life.pid for worker in self._workers)

    def _close(self) -> None:
        self.closed = time.monotonic()
        for worker in self._workers:
            worker.terminate()
        deadline = time.monotonic() + CALM_SECONDS
        while not all(worker.has_exited for worker in self._workers) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)

    # -- faults -------------------------------------------------------------------------------------------------------

    def _inject_faults(self) -> None:
        end = time.monotonic() + self.plan.seconds
        faults = self._random.sample(self._faults, len(self._faults))  # each at least once
        while faults or time.monotonic() < end:
            worker = self._some_worker()
            self._pause(self._random.uniform(0.2, 0.8))
            fault = faults[-1] if faults else self._random.choices(self._faults, self._weights)[0]
            if fault(worker) and faults:
                faults.pop()

    def _some_worker(self) -> Worker:
        """One that is up; now and then any of them, also one that is just starting or stopping."""
        if self._random.random() < 0.85:
            self._until(lambda: any(worker.is_up for worker in self._workers), "a worker is up")
            return self._random.choice([worker for worker in self._workers if worker.is_up] or self._workers)
        return self._random.choice(self._workers)

    def _kill(self, worker: Worker) -> bool:
        worker.kill()
        self._restart_exited()
        return worker.life.killed is not None

    def _terminate(self, worker: Worker) -> bool:
        worker.terminate()
        if self._random.random() < 0.2:  # as an impatient supervisor does
            self._pause(self._random.uniform(0.0, 1.5))
            self._kill(worker)
        return worker.life.terminated is not None

    def _freeze(self, worker: Worker) -> bool:
        """Freeze one while the other works; thaw it when the other may have pruned it, or kill it frozen."""
        self._until(lambda: any(other.is_up for other in self._others(worker)), "the other is up")
        if worker.has_exited or not self._can_freeze(worker):
            return False
        seconds = self._random.uniform(ALIVE_SECONDS + 0.2, ALIVE_SECONDS + min(4.5, self.plan.seconds / 8))
        if self._random.random() < 0.3:  # it is thawed before another process has noticed the freeze
            seconds = LEASE_SECONDS + 0.05
        if self._random.random() < 0.25:
            first = seconds * self._random.random()
            self._pause(first)
            self._random.choice([Worker.kill, Worker.terminate])(self._others(worker)[0])
            seconds -= first
        self._pause(seconds)
        ending = self._random.random()
        if ending < 0.15:
            worker.kill()
        elif ending < 0.3:
            worker.terminate()
        worker.thaw()
        return True

    def _others(self, worker: Worker) -> list[Worker]:
        return [other for other in self._workers if other is not worker]

    def _can_freeze(self, worker: Worker) -> bool:
        """Freeze it. On SQLite only outside a write: there a frozen writer blocks every other writer."""
        for _ in range(20):
            worker.freeze()
            if connections[self.plan.alias].vendor != "sqlite" or self._may_write():
                return True
            worker.thaw()
            self.spared += 1
            self._pause(self._random.uniform(0.01, 0.1))
        return False

    def _may_write(self) -> bool:
        path = connections[self.plan.alias].settings_dict["NAME"]
        with closing(sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            connection.execute("ROLLBACK")
            return True
