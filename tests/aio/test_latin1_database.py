"""Tasks with texts that the default character set of their database cannot store, from enqueue to result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.core.management import call_command

from steady_queue.aio import running
from steady_queue.jobs.compat import TaskResultStatus
from tests.shop.tasks import fail, greet
from tests.support.databases.aliases import extra_database, pointed_at, twin_settings
from tests.support.databases.tables import query
from tests.support.runtime import EmittedEvents, wait_for_results, worker
from tests.support.servers import MariaDB
from tests.support.wait import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Postgres

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("mariadb")]

WORDS = "🐎 漢字"


@pytest.fixture
def latin1(database: str, servers: dict[str, Postgres | MariaDB]) -> Iterator[str]:
    """The alias of a migrated database whose default character set is latin1."""
    server = servers[database]
    assert isinstance(server, MariaDB)
    server.create_database("latin", "latin1")
    try:
        with extra_database("mariadb_latin", twin_settings(database, NAME="latin")) as alias, pointed_at(alias):
            call_command("migrate", "steady_queue", database=alias, verbosity=0)
            yield alias
    finally:
        server.drop_database("latin")


async def test_arguments_errors_return_values_and_names_are_kept(latin1: str) -> None:
    async with running(worker(queues=[f"{WORDS}*"]), events=EmittedEvents()):
        good = await greet.using(backend="anything", queue_name=f"{WORDS} good").aenqueue(WORDS)
        bad = await fail.using(backend="anything", queue_name=f"{WORDS} bad").aenqueue(WORDS)
        await wait_for_results(good, bad)
    value: object = good.return_value
    assert (good.status, value) == (TaskResultStatus.SUCCESSFUL, f"Hello, {WORDS}!")
    assert (good.args, good.task.queue_name) == ([WORDS], f"{WORDS} good")
    (error,) = bad.errors
    assert (bad.status, error.exception_class) == (TaskResultStatus.FAILED, ValueError)
    assert f"ValueError: {WORDS}" in error.traceback
    stored = await in_thread(query, latin1, "SELECT exception_class, message FROM steady_queue_failedexecution")
    assert stored == [("builtins.ValueError", WORDS)]
