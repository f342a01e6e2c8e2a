"""The worker process of a bare driver: a loop that claims a batch, runs its tasks and finishes it.

It changes the same rows in the same way as Steady Queue and commits twice for each batch, as Steady Queue does. It has
nothing else: no concurrency, no heartbeat, no error handling. It calls the functions in place.
"""

from __future__ import annotations

import asyncio
import json
import os
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from benchmarks.peers.harness import StartLog, exit_on_error, read_options, run, run_worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

BATCH_SIZE = 100
#: The pause after a claim that has found no job.
POLL_SECONDS = 0.01

_ASYNC_LANE = 0
_CLAIMED_COLUMNS = "job_id, claim_id, process_id, claimed_at"


class BareWorker(ABC):
    """Claims a batch, runs it and finishes it, in a loop."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.parameters: dict[str, Any] = options["connection"]
        self.start_log = StartLog()
        self.process_id = uuid4()
        self.name = f"bare:{os.getpid()}"
        self.connection: Any = None

    @abstractmethod
    async def prepare(self) -> None:
        """Connect."""

    @abstractmethod
    async def claim(self) -> tuple[Sequence[Any], Sequence[str]]:
        """Claim a batch, and return the value to pass to `finish`, and the arguments of the jobs."""

    @abstractmethod
    async def finish(self, batch: Sequence[Any]) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        working = asyncio.create_task(exit_on_error(self._work()))
        try:
            yield
        finally:
            working.cancel()
            await asyncio.wait([working])
            await self.close()

    async def _work(self) -> None:
        while True:
            batch, arguments = await self.claim()
            for stored in arguments:
                # Arguments are stored as [version, positional, keyword].
                self.start_log.record(json.loads(stored)[1][0])
            if batch:
                await self.finish(batch)
            else:
                await asyncio.sleep(POLL_SECONDS)

    def report(self) -> dict[str, Any]:
        return {}


# -- PostgreSQL -------------------------------------------------------------------------------------------------------

_PG_CLAIM = f"""
    WITH picked AS MATERIALIZED (
        SELECT job_id FROM steady_queue_readyexecution WHERE lane = {_ASYNC_LANE} AND priority >= -32768
        ORDER BY priority DESC, job_id LIMIT {BATCH_SIZE} FOR UPDATE SKIP LOCKED
    ), unqueued AS (
        DELETE FROM steady_queue_readyexecution r USING picked p WHERE r.job_id = p.job_id
    ), mine AS (
        INSERT INTO steady_queue_claimedexecution ({_CLAIMED_COLUMNS})
        SELECT job_id, gen_random_uuid(), $1::uuid, statement_timestamp() FROM picked RETURNING job_id, claim_id
    )
    SELECT m.job_id, m.claim_id, j.arguments FROM mine m JOIN steady_queue_job j ON j.id = m.job_id"""
_PG_FINISH = """
    WITH ended AS (
        DELETE FROM steady_queue_claimedexecution c USING unnest($1::uuid[], $2::uuid[]) AS g(job_id, claim_id)
        WHERE c.job_id = g.job_id AND c.claim_id = g.claim_id RETURNING c.job_id, c.claim_id, c.claimed_at
    )
    UPDATE steady_queue_job j SET attempts = j.attempts + 1, started_at = e.claimed_at,
        last_attempted_at = e.claimed_at, finished_at = statement_timestamp(),
        last_claim_id = e.claim_id, worker_ids = $3::text
    FROM ended e WHERE j.id = e.job_id"""


class BarePostgresWorker(BareWorker):
    """asyncpg: one statement claims, one statement finishes."""

    async def prepare(self) -> None:
        import asyncpg

        from steady_queue.store.sql.postgres import SETTINGS

        # With the planner settings of Steady Queue's connections: otherwise the plans would depend on chance.
        self.connection = await asyncpg.connect(**self.parameters, server_settings=SETTINGS)

    async def claim(self) -> tuple[Sequence[Any], Sequence[str]]:
        rows = await self.connection.fetch(_PG_CLAIM, self.process_id)
        return rows, [row[2] for row in rows]

    async def finish(self, batch: Sequence[Any]) -> None:
        await self.connection.execute(_PG_FINISH, [row[0] for row in batch], [row[1] for row in batch], self.name)

    async def close(self) -> None:
        await self.connection.close()


# -- MySQL and MariaDB ------------------------------------------------------------------------------------------------


class BareMariaDBWorker(BareWorker):
    """aiomysql: one transaction claims, one transaction finishes."""

    async def prepare(self) -> None:
        import aiomysql

        self.connection = await aiomysql.connect(**self.parameters, charset="utf8mb4")
        async with self.connection.cursor() as cursor:
            await cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    async def claim(self) -> tuple[Sequence[Any], Sequence[str]]:
        async with self.connection.cursor() as cursor:
            await cursor.execute(
                "SELECT job_id, UTC_TIMESTAMP(6) FROM steady_queue_readyexecution FORCE INDEX (sq_ready_all)"
                f" WHERE lane = {_ASYNC_LANE} ORDER BY priority DESC, job_id LIMIT {BATCH_SIZE} FOR UPDATE SKIP LOCKED"
            )
            picked = await cursor.fetchall()
            ids = [row[0] for row in picked]
            arguments: Sequence[Any] = []
            if ids:
                await cursor.execute(
                    f"DELETE FROM steady_queue_readyexecution WHERE job_id IN {_marks(ids, '%s')}", ids
                )
                await cursor.executemany(
                    f"INSERT INTO steady_queue_claimedexecution ({_CLAIMED_COLUMNS}) VALUES (%s, %s, %s, %s)",
                    [(id_, uuid4().hex, self.process_id.hex, now) for id_, now in picked],
                )
                await cursor.execute(f"SELECT arguments FROM steady_queue_job WHERE id IN {_marks(ids, '%s')}", ids)
                arguments = await cursor.fetchall()
        await self.connection.commit()
        return ids, [row[0] for row in arguments]

    async def finish(self, batch: Sequence[Any]) -> None:
        marks = _marks(batch, "%s")
        async with self.connection.cursor() as cursor:
            await cursor.execute(
                "UPDATE steady_queue_claimedexecution c STRAIGHT_JOIN steady_queue_job j ON j.id = c.job_id"
                " SET j.attempts = j.attempts + 1, j.started_at = c.claimed_at, j.last_attempted_at = c.claimed_at,"
                " j.finished_at = UTC_TIMESTAMP(6), j.last_claim_id = c.claim_id,"
                f" j.worker_ids = %s WHERE c.job_id IN {marks}",
                [self.name, *batch],
            )
            await cursor.execute(f"DELETE FROM steady_queue_claimedexecution WHERE job_id IN {marks}", batch)
        await self.connection.commit()

    async def close(self) -> None:
        await self.connection.ensure_closed()


# -- SQLite -----------------------------------------------------------------------------------------------------------

_NOW = "strftime('%Y-%m-%d %H:%M:%f000', 'now')"


class BareSQLiteWorker(BareWorker):
    """aiosqlite as it is usually used: each statement switches to its thread."""

    async def prepare(self) -> None:
        import aiosqlite

        self.connection = await aiosqlite.connect(**self.parameters, isolation_level=None, timeout=30)

    async def claim(self) -> tuple[Sequence[Any], Sequence[str]]:
        execute = self.connection.execute
        await execute("BEGIN IMMEDIATE")
        picked = await self.connection.execute_fetchall(
            f"SELECT job_id, {_NOW} FROM steady_queue_readyexecution WHERE lane = {_ASYNC_LANE}"
            f" AND priority >= -32768 ORDER BY priority DESC, job_id LIMIT {BATCH_SIZE}"
        )
        ids = [row[0] for row in picked]
        arguments: Sequence[Any] = []
        if ids:
            await execute(f"DELETE FROM steady_queue_readyexecution WHERE job_id IN {_marks(ids)}", ids)
            await self.connection.executemany(
                f"INSERT INTO steady_queue_claimedexecution ({_CLAIMED_COLUMNS}) VALUES (?, ?, ?, ?)",
                [(id_, uuid4().hex, self.process_id.hex, now) for id_, now in picked],
            )
            arguments = await self.connection.execute_fetchall(
                f"SELECT arguments FROM steady_queue_job WHERE id IN {_marks(ids)}", ids
            )
        await execute("COMMIT")
        return ids, [row[0] for row in arguments]

    async def finish(self, batch: Sequence[Any]) -> None:
        execute = self.connection.execute
        await execute("BEGIN IMMEDIATE")
        await execute(
            "UPDATE steady_queue_job SET attempts = attempts + 1, started_at = c.claimed_at,"
            f" last_attempted_at = c.claimed_at, finished_at = {_NOW},"
            " last_claim_id = c.claim_id, worker_ids = ?"
            f" FROM steady_queue_claimedexecution c WHERE c.job_id = id AND id IN {_marks(batch)}",
            [self.name, *batch],
        )
        await execute(f"DELETE FROM steady_queue_claimedexecution WHERE job_id IN {_marks(batch)}", batch)
        await execute("COMMIT")

    async def close(self) -> None:
        await self.connection.close()


def _marks(values: Sequence[Any], mark: str = "?") -> str:
    return f"({', '.join([mark] * len(values))})"


WORKERS: dict[str, type[BareWorker]] = {
    "postgres": BarePostgresWorker,
    "mariadb": BareMariaDBWorker,
    "sqlite": BareSQLiteWorker,
}


def main() -> None:
    options = read_options()
    run(run_worker(WORKERS[options["alias"]](options), options["expected"]))


if __name__ == "__main__":
    main()
