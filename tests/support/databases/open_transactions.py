"""Transactions on connections of their own, which stay open from one step to the next."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connections, transaction

from tests.support.databases.tables import query
from tests.support.store.stores import SyncStore
from tests.support.threads import WAIT_TIMEOUT_SECONDS, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.store.stores import Store

T = TypeVar("T")

#: Statements that set how long a statement may wait for a lock: 2 seconds, because nothing here should wait at all.
_LOCK_TIMEOUTS = {
    "postgresql": "SET lock_timeout = '2s'",
    "mysql": "SET innodb_lock_wait_timeout = 2",
    "sqlite": "PRAGMA busy_timeout = 2000",
}


def set_lock_timeout(alias: str) -> None:
    """Limit how long this thread's connection waits for a lock."""
    query(alias, _LOCK_TIMEOUTS[connections[alias].vendor])


class OpenTransaction:
    """A thread with a connection, and at most one transaction open on it."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._thread = ThreadPoolExecutor(1)
        self._atomic: Any = None
        self.do(lambda _: set_lock_timeout(alias))

    def do(self, action: Callable[[Store], T]) -> T:
        """The result of the action, on this connection."""
        return self._thread.submit(lambda: action(SyncStore(self._alias))).result(WAIT_TIMEOUT_SECONDS)

    @property
    def is_open(self) -> bool:
        return self._atomic is not None

    def begin(self) -> None:
        self._atomic = transaction.atomic(using=self._alias)
        self.do(lambda _: self._atomic.__enter__())

    def end(self, *, commit: bool) -> None:
        """Commit or roll back; on_commit callbacks run here."""
        atomic, self._atomic = self._atomic, None

        def leave(_: Store) -> None:
            if not commit:
                transaction.set_rollback(True, using=self._alias)
            atomic.__exit__(None, None, None)

        self.do(leave)

    def close(self) -> None:
        if self.is_open:
            self.end(commit=False)
        self._thread.submit(connections.close_all).result(WAIT_TIMEOUT_SECONDS)
        self._thread.shutdown()


#: Statements after which a connection fails instead of waiting for a lock.
SHORT_LOCK_TIMEOUTS = {"postgresql": "SET lock_timeout = '50ms'", "mysql": "SET innodb_lock_wait_timeout = 1"}


def run_with_short_lock_timeout(alias: str, action: Callable[[], None]) -> None:
    """Run the action in another thread, whose connection fails where it would have to wait for a lock."""

    def act() -> None:
        query(alias, SHORT_LOCK_TIMEOUTS[connections[alias].vendor])
        action()

    together(act)
