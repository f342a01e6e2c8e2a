"""A statement, a flow of statements, an operation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

T = TypeVar("T")

#: The closed set of types of parameters; lists of them on PostgreSQL only. JSON is always passed as text. Bytes are not
#: among them: aiomysql cannot send them, because PyMySQL 1.2 has removed the function that aiomysql encodes them with.
Value = str | int | bool | UUID | datetime | None
Param = Value | Sequence[Value]
Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement in its dialect's own placeholder style.

    `returns` has a letter for each column of its rows: `u` UUID, `t` instant, `m` instant if it can be read, `i`
    integer, `.` as it comes. Empty: no rows.
    With `many`, `params` is a sequence of rows of parameters and the statement runs once for each.
    """

    text: str
    params: Sequence[Any] = ()
    returns: str = ""
    many: bool = False
    #: Whether from here on others may wait for keys that this transaction holds.
    holds_keys: bool = False


#: Yields statements, receives their rows, returns the result of the operation.
Flow = Generator[Statement, list[Row], T]


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """A flow that can be begun anew after a conflict, and whether its statements need a transaction around them."""

    name: str
    flow: Callable[[], Flow[T]]
    transaction: bool = True
    #: Whether the driver retries it after a lock timeout. If not, the caller handles the timeout.
    retries_lock_timeout: bool = True


def only(statement: Statement) -> Flow[list[Row]]:
    """The flow of a single statement."""
    rows = yield statement
    return rows


def drive(flow: Flow[T], execute: Callable[[Statement], list[Row]]) -> T:
    """Carry a flow through with a function that executes statements."""
    try:
        statement = next(flow)
        while True:
            statement = flow.send(execute(statement))
    except StopIteration as done:
        result: T = done.value
        return result


async def drive_async(flow: Flow[T], execute: Callable[[Statement], Awaitable[list[Row]]]) -> T:
    """Carry a flow through with a coroutine function that executes statements."""
    try:
        statement = next(flow)
        while True:
            statement = flow.send(await execute(statement))
    except StopIteration as done:
        result: T = done.value
        return result
