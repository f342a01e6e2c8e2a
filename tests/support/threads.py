"""Threads with Django connections of their own: to race, and to hold a transaction open."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connections, transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

T = TypeVar("T")

#: Longer than any step of a test, shorter than its timeout: a thread that waits longer ends with an error.
WAIT_TIMEOUT_SECONDS = 30.0


def together(*actions: Callable[[], T]) -> list[T]:
    """Run the actions, each in its own thread, all begun at the same moment; return the results."""
    start = threading.Barrier(len(actions))

    def begin(action: Callable[[], T]) -> T:
        start.wait(WAIT_TIMEOUT_SECONDS)
        return action()

    with ThreadPoolExecutor(len(actions)) as threads:
        return [future.result() for future in [threads.submit(closing, begin, action) for action in actions]]


def closing(function: Callable[..., T], *args: Any) -> T:
    """Call the function, close the connections of this thread, and return the result."""
    try:
        return function(*args)
    finally:
        connections.close_all()


@contextmanager
def while_in_thread(action: Callable[[], T]) -> Iterator[Future[T]]:
    """Run the action in another thread during the block; it must end by itself soon after."""
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(closing, action)
        yield future
        future.result(WAIT_TIMEOUT_SECONDS)


@contextmanager
def held(alias: str, *statements: tuple[str, Sequence[Any]]) -> Iterator[None]:
    """Execute the statements in a transaction of another thread, open during the block and rolled back then."""
    holding = threading.Event()
    done = threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
                for text, params in statements:
                    cursor.execute(text, params)
                holding.set()
                assert done.wait(WAIT_TIMEOUT_SECONDS)
                transaction.set_rollback(True, using=alias)
        finally:
            holding.set()

    with while_in_thread(hold) as holder:
        assert holding.wait(WAIT_TIMEOUT_SECONDS)
        try:
            if holder.done():
                holder.result()
            yield
        finally:
            done.set()
