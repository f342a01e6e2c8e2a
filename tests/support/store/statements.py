"""Counts the statements of an operation, with any driver."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from steady_queue.store.statement import Flow, Operation, Row, Statement
    from tests.support.store.stores import Store

T = TypeVar("T")


def only(statement: Statement) -> Flow[list[Row]]:
    """The flow of a single statement."""
    rows = yield statement
    return rows


def statements(store: Store, operation: Operation[T]) -> tuple[T, list[Statement]]:
    """What the operation returns, and the statements that it made."""
    made: list[Statement] = []

    def noted() -> Flow[T]:
        made.clear()
        flow = operation.flow()
        try:
            statement = next(flow)
            while True:
                made.append(statement)
                statement = flow.send((yield statement))
        except StopIteration as done:
            result: T = done.value
            return result

    return store.run(replace(operation, flow=noted)), made
