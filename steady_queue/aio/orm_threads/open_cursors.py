"""The cursors of one connection that stay open after the call which opened them.

Such a cursor belongs to its connection: what another task does on that connection would disturb it, and what it does
itself would join the transaction of another task. The ORM opens one for `aiterator()`; a task may keep any other.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: How many of the cursors that one call opens are examined when it ends: the last ones.
MAX_NEW_CURSORS = 1_000


class OpenCursors:
    """Follows the cursors of a connection. Made in the connection's thread."""

    def __init__(self, wrapper: Any, request: Callable[[Callable[[], None]], object]) -> None:
        self._wrapper = wrapper
        #: Has the connection's thread make a call; may be used in any thread.
        self._request = request
        self._thread_id = threading.get_ident()
        #: Cursors that were opened since the last call of `are_open`: most are deleted by then, and cost nothing.
        self._new: deque[weakref.ref[Any]] = deque(maxlen=MAX_NEW_CURSORS)
        self._open: set[weakref.ref[Any]] = set()
        self._is_closed = _CLOSED.get(wrapper.vendor)
        self._make_cursor = type(wrapper).cursor
        vars(wrapper)["cursor"] = self._cursor
        vars(wrapper)["chunked_cursor"] = self._chunked_cursor

    def are_open(self) -> bool:
        """Return whether any cursor can still be used."""
        if self._new:
            for reference in self._new:
                cursor = reference()
                if cursor is not None and self._is_closed is not None and not self._is_closed(cursor):
                    self._follow(cursor)
            self._new.clear()
        if self._open and self._wrapper.connection is None:
            self.close()
        return bool(self._open)

    def close(self) -> None:
        """Close all: their task has ended, or their connection was closed."""
        for reference in list(self._open):
            cursor = reference()
            if cursor is not None:
                with suppress(Exception):  # of the driver: the connection may be gone
                    cursor.close()
        self._open.clear()

    def _cursor(self) -> Any:
        cursor: Any = self._make_cursor(self._wrapper)
        if self._is_closed is None:
            self._follow(cursor)
        else:
            self._new.append(weakref.ref(cursor))
        return cursor

    def _chunked_cursor(self) -> Any:
        cursor: Any = type(self._wrapper).chunked_cursor(self._wrapper)
        self._follow(cursor)
        return cursor

    def _follow(self, cursor: Any) -> None:
        """Learn when the cursor is closed, and close it in its connection's thread only."""
        if "close" in vars(cursor):
            return  # followed already
        close = cursor.close
        reference = weakref.ref(cursor, self._forget)

        def close_in_thread() -> None:
            if reference not in self._open:
                return  # an abandoned iteration closes it once more, when the connection may be gone
            if threading.get_ident() == self._thread_id:
                try:
                    close()
                finally:
                    self._forget(reference)
            else:
                # The event loop or the garbage collector closes an iteration that is not finished. Drivers would wait
                # there for the query that the thread makes at the same time, or fail.
                self._request(lambda: self._close_late(close, reference))

        cursor.close = close_in_thread
        self._open.add(reference)

    def _close_late(self, close: Callable[[], None], reference: weakref.ref[Any]) -> None:
        with suppress(Exception):  # of the driver: there is no caller to raise it to
            close()
        self._open.discard(reference)

    def _forget(self, reference: weakref.ref[Any]) -> None:
        if reference in self._open:
            self._open.discard(reference)
            if threading.get_ident() != self._thread_id:
                self._request(lambda: None)  # after any call, the thread checks whether anything is open


#: Functions that return whether a cursor was closed, by the vendor of its database. Cursors of other vendors are
#: followed from the beginning.
_CLOSED: dict[str, Callable[[Any], bool]] = {
    "postgresql": lambda cursor: bool(cursor.closed),
    "mysql": lambda cursor: cursor.connection is None,
}
