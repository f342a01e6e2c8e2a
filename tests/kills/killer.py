"""Kills its own process at one point of a task's transaction."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.backends.signals import connection_created

if TYPE_CHECKING:
    from collections.abc import Callable

#: A kill during the commit comes within so many seconds of its begin.
COMMIT_SECONDS = 0.003
COMMIT = "COMMIT"
#: The names of the threads in which tasks use connections.
LANES = "steady-queue-"


class Point(NamedTuple):
    """Where to kill: before, after or during the statement with this number."""

    when: str
    number: int


class Killer:
    """Counts the statements of the connections that tasks use, commits among them."""

    def __init__(self, alias: str, point: Point | None) -> None:
        self.statements: list[str] = []
        self._alias = alias
        self._point = point

    def watch(self) -> None:
        connection_created.connect(self._opened, weak=False)

    def _opened(self, connection: Any, **_: object) -> None:
        is_watched = self._around_statement in connection.execute_wrappers
        if connection.alias == self._alias and threading.current_thread().name.startswith(LANES) and not is_watched:
            connection.execute_wrappers.append(self._around_statement)
            commit = type(connection)._commit
            vars(connection)["_commit"] = lambda: self._around(COMMIT, lambda: commit(connection))

    def _around_statement(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        return self._around(str(sql), lambda: execute(sql, params, many, context))

    def _around(self, text: str, execute: Callable[[], Any]) -> Any:
        number = len(self.statements)
        self.statements.append(text)
        if self._point == Point("before", number):
            kill_now()
        if self._point == Point("during", number):
            threading.Thread(target=_kill_soon).start()
        result = execute()
        if self._point == Point("after", number):
            kill_now()
        return result


def kill_now() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_soon() -> None:
    time.sleep(random.uniform(0, COMMIT_SECONDS))
    kill_now()
