"""Many tasks on few ORM threads, in any order of their steps: each finds what it committed, and affects no other task.

A task writes, reads, opens and closes transactions as async helpers do, iterates, has the server end a connection, and
ends with anything left open. Only a task whose own transaction or iteration was cut off may see an error.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, Error, InterfaceError, connections, transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from steady_queue.aio.orm_threads import thread
from steady_queue.aio.orm_threads.connections import ThreadConnections
from steady_queue.aio.orm_threads.pool import OrmThreads
from steady_queue.events import Events
from tests.shop.models import Customer
from tests.support.databases.tables import query
from tests.support.runtime import in_thread, until
from tests.support.tasks.orm import backend_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# psycopg warns of a cursor that could not be closed properly, because its connection was ended before.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

#: The number of examples; by default a few that are always the same.
EXAMPLES = int(os.environ.get("STEADY_QUEUE_STATEFUL_EXAMPLES", "0"))
FEW = 40
#: Rows that exist before, to iterate over.
ROWS = 3
STEPS = ["write", "write", "begin", "commit", "roll back", "read", "iterate", "stop iterating"]


def some_scripts(steps: list[str]) -> st.SearchStrategy[list[list[str]]]:
    return st.lists(st.lists(st.sampled_from(steps), min_size=1, max_size=7), min_size=2, max_size=6)


orders = st.lists(st.integers(0, 5), max_size=40)


class Player:
    """One task: its script, what it has committed, and what it has written since its transaction began."""

    def __init__(self, play: Play, number: int, script: list[str]) -> None:
        self.play = play
        self.number = number
        self.script = script
        self.permits = asyncio.Semaphore(0)
        self.is_at_rest = False
        #: Whether the connection of its transaction or iteration was ended.
        self.is_cut_off = False
        self.committed: set[str] = set()
        self.pending: set[str] = set()
        self.block: transaction.Atomic | None = None
        self.iteration: AsyncIterator[Customer] | None = None
        self.backend: Any = None
        self.session, context = play.pool.begin(lambda: f"player {number}")
        self.task = asyncio.get_running_loop().create_task(self._run(), context=context)

    @property
    def has_stopped(self) -> bool:
        """Whether nothing can happen before it is permitted its next step, or before another task goes on."""
        is_waiting = any(order.session is self.session for order in self.play.pool.waiting)
        return self.is_at_rest or is_waiting or self.task.done()

    async def _run(self) -> None:
        try:
            for at, step in enumerate(self.script):
                self.is_at_rest = True
                await self.permits.acquire()
                self.is_at_rest = False
                await self._guarded(step, at)
            assert (self.session.open_transaction is not None) == (self.block is not None)
        finally:
            await self.session.release_thread()
            self.play.pool.end(self.session)

    async def _guarded(self, step: str, at: int) -> None:
        was_cut_off = self.is_cut_off
        try:
            await self._step(step, at)
        except Error:
            if not was_cut_off:
                raise

    async def _step(self, step: str, at: int) -> None:
        match step:
            case "write":
                await self._write(f"{self.play.prefix} {self.number} {at}")
            case "read":
                await self._read()
            case "begin" if self.block is None:
                self.block = transaction.atomic(using=self.play.alias)
                await sync_to_async(self._enter)(self.block)
            case "commit" | "roll back" if self.block is not None:
                await self._leave(self.block, commits=step == "commit")
            case "iterate":
                await self._iterate()
            case "stop iterating":
                await self._stop_iterating()
            case "end a connection":
                await self.play.end_connection(self.play.players[(self.number + 1) % len(self.play.players)])

    async def _write(self, name: str) -> None:
        await sync_to_async(self._create)(name)
        (self.committed if self.block is None else self.pending).add(name)

    def _create(self, name: str) -> None:
        self._note_backend()
        Customer.objects.using(self.play.alias).create(name=name)

    def _enter(self, block: transaction.Atomic) -> None:
        block.__enter__()
        self._note_backend()

    def _note_backend(self) -> None:
        if self.play.has_server:
            self.backend = backend_id()

    async def _read(self) -> None:
        mine = Customer.objects.using(self.play.alias).filter(name__startswith=f"{self.play.prefix} {self.number} ")
        found = {customer.name async for customer in mine}
        assert found == self.committed | self.pending or self.is_cut_off

    async def _leave(self, block: transaction.Atomic, *, commits: bool) -> None:
        pending, self.pending, self.block = self.pending, set(), None
        error = None if commits else LookupError()
        try:
            await sync_to_async(block.__exit__)(type(error) if error else None, error, None)
        finally:
            was_cut_off, self.is_cut_off = self.is_cut_off, self.is_cut_off and self.iteration is not None
            if was_cut_off:
                pending = set()
        if commits:
            self.committed |= pending

    async def _iterate(self) -> None:
        """Take the next row of an iteration, or of a new one."""
        if self.iteration is None:
            rows = Customer.objects.using(self.play.alias).filter(name__startswith=f"{self.play.prefix} row")
            self.iteration = rows.order_by("name").aiterator(chunk_size=1)
        try:
            await anext(self.iteration)
            if self.session.is_holder:
                await sync_to_async(self._note_backend)()
        except StopAsyncIteration:
            self.iteration = None
        except Error:
            self.iteration = None
            self.is_cut_off, was_cut_off = self.is_cut_off and self.block is not None, self.is_cut_off
            assert was_cut_off

    async def _stop_iterating(self) -> None:
        iteration: Any = self.iteration
        if iteration is not None:
            self.iteration = None
            with suppress(DatabaseError, InterfaceError):
                await iteration.aclose()
            self.is_cut_off = self.is_cut_off and self.block is not None


class Play:
    """Some players on some threads, and the order in which they are permitted their steps."""

    def __init__(self, alias: str, threads: int, scripts: list[list[str]]) -> None:
        self.alias = alias
        self.has_server = connections[alias].vendor != "sqlite"
        self.prefix = uuid4().hex
        self.pool = OrmThreads(threads, events=Events([lambda event: None]))
        self._scripts = scripts
        self.players: list[Player] = []

    async def run(self, order: list[int]) -> None:
        await in_thread(self._prepare)
        await self.pool.open()
        try:
            for number, script in enumerate(self._scripts):
                self.players.append(Player(self, number, script))
            await asyncio.sleep(0)
            for number in order:
                await self._permit(self.players[number % len(self.players)])
            while left := [player for player in self.players if not player.task.done()]:
                for player in left:
                    await self._permit(player)
            await asyncio.gather(*[player.task for player in self.players])
        finally:
            self.pool.shutdown()
        kept = set[str]().union(*[player.committed for player in self.players])
        assert await in_thread(self._found) == kept | {f"{self.prefix} row {number}" for number in range(ROWS)}

    async def _permit(self, player: Player) -> None:
        """Let a player take its next step, and wait until it has, or must wait for others."""
        player.permits.release()
        await asyncio.sleep(0)
        await until(lambda: all(player.has_stopped for player in self.players))

    async def end_connection(self, of: Player) -> None:
        """Have the server end the connection that a player used last, whichever task uses it now."""
        if of.backend is None:
            return
        for player in self.players:
            if player.session.is_holder and player.backend == of.backend:
                player.is_cut_off = True
        await in_thread(_end_connection, self.alias, of.backend)

    def _prepare(self) -> None:
        rows = [Customer(name=f"{self.prefix} row {number}") for number in range(ROWS)]
        Customer.objects.using(self.alias).bulk_create(rows)

    def _found(self) -> set[str]:
        rows = Customer.objects.using(self.alias).filter(name__startswith=self.prefix)
        return set(rows.values_list("name", flat=True))


def _end_connection(alias: str, number: Any) -> None:
    """Have the server end a connection, if it is still there, and wait until it has."""
    if connections[alias].vendor == "postgresql":
        query(alias, "SELECT pg_terminate_backend(%s, 20000)", number)
        return
    with suppress(DatabaseError):  # there is none of that number any more
        query(alias, f"KILL {number}")
    while (number,) in query(alias, "SELECT id FROM information_schema.processlist"):
        pass


@pytest.fixture
def _polls_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps follow each other faster than a thread that is polled after a pause can notice."""
    monkeypatch.setattr(thread, "PAUSE_SECONDS", 0.0)


chosen = settings(
    max_examples=EXAMPLES or FEW,
    derandomize=not EXAMPLES,
    database=None,
    phases=list(Phase) if EXAMPLES else [Phase.generate],
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.usually_on("postgres", "mariadb")
@pytest.mark.usefixtures("_polls_always")
def test_in_any_order_of_steps_no_task_notices_what_others_do_to_their_connections(database: str) -> None:
    @chosen
    @given(threads=st.integers(1, 3), scripts=some_scripts([*STEPS, "end a connection"]), order=orders)
    def example(threads: int, scripts: list[list[str]], order: list[int]) -> None:
        asyncio.run(_play(database, threads, scripts, order))

    example()


@pytest.mark.only_on("sqlite")
def test_in_any_order_of_steps_tasks_share_one_thread_on_sqlite(database: str) -> None:
    # With more threads a writer would wait, as everywhere on SQLite, for the transaction of another connection.
    @chosen
    @given(scripts=some_scripts(STEPS), order=orders)
    def example(scripts: list[list[str]], order: list[int]) -> None:
        asyncio.run(_play(database, 1, scripts, order))

    example()


async def _play(alias: str, threads: int, scripts: list[list[str]], order: list[int]) -> None:
    await Play(alias, threads, scripts).run(order)


@pytest.mark.only_on("postgres")
@pytest.mark.usefixtures("_polls_always")
@pytest.mark.parametrize("mistake", ["is_held", "replace_dead", "replace_broken"])
def test_a_thread_that_manages_its_connections_wrongly_is_detected(
    database: str, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ThreadConnections, mistake, lambda self: False)
    if mistake == "replace_broken":  # the other way to notice a dead connection
        monkeypatch.setattr(ThreadConnections, "replace_dead", lambda self: None)

    @settings(chosen, max_examples=300)
    @given(scripts=some_scripts([*STEPS, "end a connection"]), order=orders)
    def example(scripts: list[list[str]], order: list[int]) -> None:
        asyncio.run(_play(database, 1, scripts, order))

    with pytest.raises((AssertionError, Error)):
        example()
