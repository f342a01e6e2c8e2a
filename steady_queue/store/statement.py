"""A statement, a flow of statements, and an operation: values without I/O.

A flow is a generator that yields statements and receives their rows. `@operation` on a flow function makes a function
of the same parameters that returns an `Operation`, which a driver runs; the flow itself stays reachable as `.flow`, for
flows that are parts of other flows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast
from uuid import UUID

T = TypeVar("T")
P = ParamSpec("P")

#: The closed set of types of parameters; lists of them on PostgreSQL only. JSON is always passed as text. Bytes are not
#: among them: aiomysql cannot send them, because PyMySQL 1.2 has removed the function that aiomysql encodes them with.
Value = str | int | bool | UUID | datetime | None
Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement in its dialect's own placeholder style.

    `returns` has a letter for each column of its rows: `u` UUID, `t` time, `m` time if it can be parsed, `i` integer,
    `.` the driver's value unchanged. Empty: no rows.
    With `many`, `params` is a sequence of rows of parameters and the statement runs once for each.
    """

    text: str
    params: Sequence[Any] = ()
    returns: str = ""
    many: bool = False
    #: Whether the transaction holds locks of concurrency keys after this statement, for which other processes wait.
    holds_keys: bool = False


#: Yields statements, receives their rows, returns the result of the operation.
Flow = Generator[Statement, list[Row], T]


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """A flow that can be restarted after a conflict, and whether its statements need a transaction around them."""

    name: str
    flow: Callable[[], Flow[T]]
    transaction: bool = True
    #: Whether the driver retries it after a lock timeout. If not, the caller handles the timeout.
    retries_lock_timeout: bool = True


class OperationFunction(Protocol[P, T]):
    """A function that returns operations; `flow` is the flow function that it was made from."""

    @property
    def flow(self) -> Callable[P, Generator[Statement, list[Row], T]]: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Operation[T]: ...


def operation(
    *, transaction: bool = True, name: str | None = None
) -> Callable[[Callable[P, Flow[T]]], OperationFunction[P, T]]:
    """Make a flow function return operations; they are named after it.

    An operation whose need for a transaction depends on its arguments is built by hand: see enqueue, claim and settle.
    """

    def decorate(flow: Callable[P, Flow[T]]) -> OperationFunction[P, T]:
        its_name = name or flow.__name__.replace("_", " ")

        @wraps(flow)
        def build(*args: P.args, **kwargs: P.kwargs) -> Operation[T]:
            return Operation(its_name, partial(flow, *args, **kwargs), transaction)

        function = cast("Any", build)
        function.flow = flow
        return cast("OperationFunction[P, T]", function)

    return decorate


def chunks_of(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The values in chunks of at most this size."""
    for at in range(0, len(values), size):
        yield values[at : at + size]


def drive(flow: Flow[T], execute: Callable[[Statement], list[Row]]) -> T:
    """Run a flow with a function that executes statements."""
    try:
        statement = next(flow)
        while True:
            statement = flow.send(execute(statement))
    except StopIteration as done:
        result: T = done.value
        return result


async def drive_async(flow: Flow[T], execute: Callable[[Statement], Awaitable[list[Row]]]) -> T:
    """Run a flow with a coroutine function that executes statements."""
    try:
        statement = next(flow)
        while True:
            statement = flow.send(await execute(statement))
    except StopIteration as done:
        result: T = done.value
        return result
