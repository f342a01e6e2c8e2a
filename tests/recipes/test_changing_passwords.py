"""The password of the database is changed while a worker runs: each new connection uses the current one."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from django.db import connections

from steady_queue.aio import running
from steady_queue.errors import EnqueueError
from steady_queue.events import DatabaseLost, DatabaseRecovered
from tests.recipes.projects import files_of
from tests.support.databases.aliases import extra_database, pointed_at, twin_settings
from tests.support.databases.tables import query
from tests.support.runtime import EmittedEvents, enqueue_each, in_thread, until, values, worker
from tests.support.servers import wait_until
from tests.support.tasks import recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("postgres", "mariadb")]


class Account:
    """A user of the database whose password is in a file."""

    def __init__(self, alias: str, file: Path) -> None:
        self.alias = alias
        self.file = file
        self.is_postgres = connections[alias].vendor == "postgresql"

    @contextmanager
    def existing(self) -> Iterator[None]:
        if self.is_postgres:
            query(self.alias, "CREATE ROLE clerk LOGIN SUPERUSER PASSWORD 'first'")
        else:
            query(self.alias, "CREATE USER clerk IDENTIFIED BY 'first'")
            query(self.alias, "GRANT ALL ON *.* TO clerk")
        self.file.write_text("first\n")
        try:
            yield
        finally:
            query(self.alias, f"DROP {'ROLE' if self.is_postgres else 'USER'} clerk")

    def change_password(self, password: str) -> None:
        """Change the password in the database only, and end the connections that were opened with the old one."""
        ended = self.sessions()
        if self.is_postgres:
            query(self.alias, f"ALTER ROLE clerk PASSWORD '{password}'")
            query(self.alias, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'clerk'")
        else:
            query(self.alias, f"ALTER USER clerk IDENTIFIED BY '{password}'")
            query(self.alias, "KILL USER clerk")
        wait_until(lambda: not ended & self.sessions(), "the old connections have ended")

    def sessions(self) -> set[int]:
        postgres = "SELECT pid FROM pg_stat_activity WHERE usename = 'clerk'"
        mariadb = "SELECT id FROM information_schema.processlist WHERE user = 'clerk'"
        return {row[0] for row in query(self.alias, postgres if self.is_postgres else mariadb)}


@pytest.fixture
def account(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """The queue's database, reached with the backend of the recipe as a user whose password will change."""
    account = Account(database, tmp_path / "password")
    code = files_of("Passwords that change")["project/password_file/base.py"]
    if not account.is_postgres:
        code = code.replace("backends.postgresql", "backends.mysql")
    package = f"password_file_for_{database}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    (tmp_path / package / "base.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = twin_settings(database, USER="clerk", PASSWORD="", ENGINE=package)
    with ExitStack() as stack:
        stack.enter_context(account.existing())
        alias = stack.enter_context(extra_database(f"{database}_clerk", settings | {"PASSWORD_FILE": account.file}))
        stack.enter_context(pointed_at(alias))
        yield account
    for name in (package, f"{package}.base"):
        sys.modules.pop(name, None)


async def test_a_worker_reconnects_with_the_password_of_the_moment(account: Account) -> None:
    async with running(worker()) as process:
        assert await values(*await enqueue_each(recording.rests, [1, 2])) == [1, 2]
        account.file.write_text("second\n")
        await in_thread(account.change_password, "second")

        assert await values(*await enqueue_each(recording.works, [3, 4])) == [3, 4]
        if account.is_postgres:
            await until(process.services.is_listening)


async def test_a_worker_waits_for_a_password_that_arrives_late(account: Account) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        await in_thread(account.change_password, "second")
        await until(lambda: any("clerk" in event.error for event in emitted.of(DatabaseLost)))
        account.file.unlink()
        with pytest.raises(EnqueueError, match="FileNotFoundError") as caught:
            await recording.rests.aenqueue(1)
        assert caught.value.stored == "no"
        account.file.write_text("second\n")

        await until(lambda: bool(emitted.of(DatabaseRecovered)))
        assert await values(await recording.rests.aenqueue(2)) == [2]
