"""The systems to measure: how each one is started, and how the database shows that all of its jobs are finished."""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import psycopg
from django.db import connections

import steady_queue
from benchmarks.support.processes import WorkerProcess
from benchmarks.support.servers import parameters
from steady_queue import aenqueue_all
from tests.support.databases.invariants import violations
from tests.support.databases.tables import EXECUTIONS, query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.jobs.definition.task import SteadyQueueTask
    from tests.support.servers import Postgres

#: The concurrency of Steady Queue where only the rate is measured.
COROUTINES = 500
#: The columns of a finished job, except ids and times, which differ from system to system.
_DISTINCT_ROWS = (
    "SELECT return_value, attempts, errors, COUNT(started_at), COUNT(last_attempted_at), COUNT(finished_at),"
    " COUNT(last_claim_id), COUNT(worker_ids), COUNT(*) FROM steady_queue_job GROUP BY return_value, attempts, errors"
)


class System(ABC):
    """A worker in a process of its own, and the database that it works on."""

    def __init__(self, label: str, jobs: int) -> None:
        self.label = label
        self.jobs = jobs

    @abstractmethod
    def start(self) -> WorkerProcess:
        """Start the process. The jobs are stored before, or the process stores them before it is ready."""

    @abstractmethod
    def is_finished(self) -> bool:
        """Whether all jobs are finished in the database."""

    @abstractmethod
    def find_problems(self) -> list[str]:
        """Check the rows after a run, and delete everything that the run has stored."""

    @abstractmethod
    def prepare_tables(self) -> None:
        """Vacuum, so that a run pays neither for earlier writes nor for plans made while the tables were empty."""


class OnSteadyQueueTables(System):
    """The tables of Steady Queue, with jobs for the worker of Steady Queue or of a bare driver."""

    def __init__(self, label: str, jobs: int, alias: str, task: SteadyQueueTask[..., Any]) -> None:
        super().__init__(label, jobs)
        self.alias = alias
        self.task = task

    def store_jobs(self, *arguments: Any) -> None:
        """Store the jobs, numbered from 0. The arguments of each are its number and these arguments."""
        self.empty_tables()
        steady_queue.database = self.alias
        asyncio.run(aenqueue_all([self.task.bind(number, *arguments) for number in range(self.jobs)]))

    def is_finished(self) -> bool:
        """A job that is neither ready nor claimed is finished; `find_problems` finds one that is not."""
        return not any(
            query(self.alias, f"SELECT 1 FROM steady_queue_{table} LIMIT 1")
            for table in ("claimedexecution", "readyexecution")
        )

    def prepare_tables(self) -> None:
        if connections[self.alias].vendor == "postgresql":
            query(self.alias, "VACUUM ANALYZE")
            query(self.alias, "CHECKPOINT")

    def find_problems(self) -> list[str]:
        found = violations(self.alias)
        expected = [(None, 1, None, *[self.jobs] * 6)]
        if self.jobs and (rows := query(self.alias, _DISTINCT_ROWS)) != expected:
            found.append(f"the job rows are {rows[:3]}, not {expected}")
        self.empty_tables()
        return [f"{self.label} on {self.alias}: {problem}" for problem in found]

    def empty_tables(self) -> None:
        statement = "DELETE FROM" if connections[self.alias].vendor == "sqlite" else "TRUNCATE TABLE"
        for table in ("job", *EXECUTIONS):
            query(self.alias, f"{statement} steady_queue_{table}")


class SteadyQueue(OnSteadyQueueTables):
    """The worker of Steady Queue, with these options of `Worker`."""

    def __init__(
        self,
        label: str,
        jobs: int,
        alias: str,
        task: SteadyQueueTask[..., Any],
        arguments: Sequence[Any] = (),
        **worker: Any,
    ) -> None:
        super().__init__(label, jobs, alias, task)
        self.arguments = arguments
        self.worker = worker or {"coroutines": COROUTINES}
        self.extra_options: dict[str, Any] = {}

    def start(self) -> WorkerProcess:
        self.store_jobs(*self.arguments)
        options = {"role": "work", "alias": self.alias, "worker": self.worker, "expected": self.jobs}
        return WorkerProcess("benchmarks.support.steady_queue_worker", options | self.extra_options)


class BareDriver(OnSteadyQueueTables):
    """A loop on the bare driver of the database."""

    def start(self) -> WorkerProcess:
        self.store_jobs()
        connection = parameters(self.alias)
        if self.alias == "postgres":
            connection["database"] = connection.pop("dbname")
        if self.alias == "mariadb":
            connection["db"] = connection.pop("database")
        return WorkerProcess(
            "benchmarks.support.bare_driver_worker",
            {"alias": self.alias, "connection": connection, "expected": self.jobs},
        )


class Peer(System):
    """Another queue, in a database of its own that each run creates and drops."""

    def __init__(
        self,
        label: str,
        jobs: int,
        script: str,
        server: Postgres,
        *,
        unfinished: str,
        count_finished: str,
        python: str | None = None,
    ) -> None:
        super().__init__(label, jobs)
        self.script = script
        self.server = server
        self.database = f"peer_{script.partition('_')[0]}"
        #: Two queries: one selects a row while a job is unfinished, one counts the finished jobs.
        self.unfinished, self.count_finished = unfinished, count_finished
        self.python = python or sys.executable
        self.extra_options: dict[str, Any] = {}
        self._connection: psycopg.Connection | None = None

    @property
    def account(self) -> dict[str, Any]:
        names = ("host", "port", "user", "password")
        return {**{name: getattr(self.server, name) for name in names}, "database": self.database}

    def start(self) -> WorkerProcess:
        self.server.drop_database(self.database)
        self.server.create_database(self.database)
        options = {"role": "work", "stored_jobs": self.jobs, "expected": self.jobs}
        return self.start_process(**options | self.extra_options)

    def start_process(self, **options: Any) -> WorkerProcess:
        return WorkerProcess(
            self.script,
            {"connection": self.account, **options},
            python=self.python,
            # The script must not find the packages of this project.
            environment={"PYTHONPATH": "", "DJANGO_SETTINGS_MODULE": ""},
        )

    def is_finished(self) -> bool:
        return not self._query(self.unfinished)

    def prepare_tables(self) -> None:
        self._query("VACUUM ANALYZE")
        self._query("CHECKPOINT")

    def find_problems(self) -> list[str]:
        ((finished,),) = self._query(self.count_finished)
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.server.drop_database(self.database)
        if finished == self.jobs:
            return []
        return [f"{self.label}: {finished} jobs are finished instead of {self.jobs}"]

    def _query(self, text: str) -> list[tuple[Any, ...]]:
        if self._connection is None:
            account = self.account
            self._connection = psycopg.connect(**account | {"dbname": account.pop("database")}, autocommit=True)
        cursor = self._connection.execute(text.encode())
        return cursor.fetchall() if cursor.description else []
