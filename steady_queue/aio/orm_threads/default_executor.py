"""The event loop's default executor, which runs the functions of `asyncio.to_thread` and the like."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from steady_queue.aio.orm_threads.connections import thread_connections
from steady_queue.aio.orm_threads.session import current_session
from steady_queue.errors import TransactionLeftOpen

if TYPE_CHECKING:
    from collections.abc import Callable


class DefaultExecutor(ThreadPoolExecutor):
    """A thread pool that records its pending calls, also in the session of the task that made each."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="steady-queue-other")
        self.calls: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(_with_working_connections, fn, *args, **kwargs)
        self.calls.add(future)
        future.add_done_callback(self.calls.discard)
        session = current_session()
        if session is not None:
            session.add_call(future)
        return future


def _with_working_connections(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call the function with working connections, and leave no transaction open: the next call is of another task."""
    connections = thread_connections()
    connections.replace_dead()
    try:
        result = fn(*args, **kwargs)
        if (alias := connections.open_transaction()) is not None:
            raise TransactionLeftOpen(alias)
        return result
    finally:
        connections.release()
        connections.replace_broken()
