"""The sides of a race, as the measuring process sees them: how each is started, and whether all is done."""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import psycopg
from django.db import connections

import steady_queue
from benchmarks.hands import Hand
from benchmarks.servers import parameters
from steady_queue import aenqueue_all
from tests.support.databases.invariants import violations
from tests.support.databases.tables import EXECUTIONS, query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.jobs.task import SteadyQueueTask
    from tests.support.servers import Postgres

#: What ours runs at once when nothing else is measured than the rate.
COROUTINES = 500
#: What a finished job's row says, but for ids and times, which both sides make of their own.
_KINDS = (
    "SELECT return_value, attempts, errors, COUNT(started_at), COUNT(last_attempted_at), COUNT(finished_at),"
    " COUNT(last_claim_id), COUNT(worker_ids), COUNT(*) FROM steady_queue_job GROUP BY return_value, attempts, errors"
)


class Contender(ABC):
    """One side: a worker in a process of its own, and a database to look into."""

    def __init__(self, label: str, jobs: int) -> None:
        self.label = label
        self.jobs = jobs

    @abstractmethod
    def start(self) -> Hand:
        """Start the process, on as many jobs as there are to be; it stores them itself, or they are there."""

    @abstractmethod
    def settled(self) -> bool:
        """Whether the database knows that nothing is left to do."""

    @abstractmethod
    def problems(self) -> list[str]:
        """What is wrong with the rows afterwards; with them goes everything else that this run has made."""

    @abstractmethod
    def calm(self) -> None:
        """Let nobody pay for what was written before, nor for plans made while the tables were empty."""


class OnOurTables(Contender):
    """Our tables: filled by ourselves, emptied by our own worker or by a bare loop."""

    def __init__(self, label: str, jobs: int, alias: str, task: SteadyQueueTask[..., Any]) -> None:
        super().__init__(label, jobs)
        self.alias = alias
        self.task = task

    def fill(self, *arguments: Any) -> None:
        """Store the jobs, numbered from 0, each with these arguments after its number."""
        self.sweep()
        steady_queue.database = self.alias
        asyncio.run(aenqueue_all([self.task.bind(number, *arguments) for number in range(self.jobs)]))

    def settled(self) -> bool:
        """An empty table of ready and of claimed jobs: what is neither is finished, or wrong."""
        return not any(
            query(self.alias, f"SELECT 1 FROM steady_queue_{table} LIMIT 1")
            for table in ("claimedexecution", "readyexecution")
        )

    def calm(self) -> None:
        if connections[self.alias].vendor == "postgresql":
            query(self.alias, "VACUUM ANALYZE")
            query(self.alias, "CHECKPOINT")

    def problems(self) -> list[str]:
        found = violations(self.alias)
        as_it_should_be = [(None, 1, None, *[self.jobs] * 6)]
        if self.jobs and (kinds := query(self.alias, _KINDS)) != as_it_should_be:
            found.append(f"rows that are not as they should be: {kinds[:3]}, not {as_it_should_be}")
        self.sweep()
        return [f"{self.label} on {self.alias}: {problem}" for problem in found]

    def sweep(self) -> None:
        how = "DELETE FROM" if connections[self.alias].vendor == "sqlite" else "TRUNCATE TABLE"
        for table in ("job", *EXECUTIONS):
            query(self.alias, f"{how} steady_queue_{table}")


class Ours(OnOurTables):
    """Steady Queue's own worker, with these options of `Worker`."""

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
        self.more: dict[str, Any] = {}

    def start(self) -> Hand:
        self.fill(*self.arguments)
        orders = {"role": "work", "alias": self.alias, "worker": self.worker, "expected": self.jobs, **self.more}
        return Hand("benchmarks.our_worker", orders)


class Bare(OnOurTables):
    """The bare driver of the database."""

    def start(self) -> Hand:
        self.fill()
        connection = parameters(self.alias)
        if self.alias == "postgres":
            connection["database"] = connection.pop("dbname")
        if self.alias == "mariadb":
            connection["db"] = connection.pop("database")
        return Hand("benchmarks.bare_worker", {"alias": self.alias, "connection": connection, "expected": self.jobs})


class Peer(Contender):
    """Another queue, in a database of its own that each run makes and drops."""

    def __init__(
        self, label: str, jobs: int, script: str, server: Postgres, *, left: str, done: str, python: str | None = None
    ) -> None:
        super().__init__(label, jobs)
        self.script = script
        self.server = server
        self.database = f"peer_{script.partition('_')[0]}"
        #: Selects a row while anything is left to do; counts what was done.
        self.left, self.done = left, done
        self.python = python or sys.executable
        self.more: dict[str, Any] = {}
        self._connection: psycopg.Connection | None = None

    @property
    def account(self) -> dict[str, Any]:
        names = ("host", "port", "user", "password")
        return {**{name: getattr(self.server, name) for name in names}, "database": self.database}

    def start(self) -> Hand:
        self.server.drop_database(self.database)
        self.server.create_database(self.database)
        return self.hand(**{"role": "work", "jobs": self.jobs, "expected": self.jobs, **self.more})

    def hand(self, **orders: Any) -> Hand:
        return Hand(
            self.script,
            {"connection": self.account, **orders},
            python=self.python,
            # It must find its own packages only.
            environment={"PYTHONPATH": "", "DJANGO_SETTINGS_MODULE": ""},
        )

    def settled(self) -> bool:
        return not self._rows(self.left)

    def calm(self) -> None:
        self._rows("VACUUM ANALYZE")
        self._rows("CHECKPOINT")

    def problems(self) -> list[str]:
        ((done,),) = self._rows(self.done)
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.server.drop_database(self.database)
        return [] if done == self.jobs else [f"{self.label}: {done} jobs are done instead of {self.jobs}"]

    def _rows(self, text: str) -> list[tuple[Any, ...]]:
        if self._connection is None:
            account = self.account
            self._connection = psycopg.connect(**account | {"dbname": account.pop("database")}, autocommit=True)
        cursor = self._connection.execute(text.encode())
        return cursor.fetchall() if cursor.description else []
