"""Subscribers of events, and how events reach them.

`subscribe` is for application code, and works in every process that imports that code.
"""

from __future__ import annotations

import inspect
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from steady_queue.events.base import Event, name_of
from steady_queue.events.faults import RuntimeFault
from steady_queue.events.log_limits import LengthLimit
from steady_queue.events.tracebacks import traceback_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Receiver = Callable[[Any], object]
    Kinds = Sequence[type[Event]] | type[Event]
    R = TypeVar("R", bound=Receiver)

__all__ = ["Events", "Subscription", "emit", "log", "subscribe", "unsubscribe"]

logger = logging.getLogger("steady_queue")
logger.addFilter(LengthLimit())


class Subscription(NamedTuple):
    """A subscriber, and the event classes it wants with their subclasses; an empty tuple means all events."""

    receiver: Receiver
    only: tuple[type[Event], ...] = ()

    def wants(self, kind: type[Event]) -> bool:
        if self.receiver is log:
            return logger.isEnabledFor(kind.level)
        return not self.only or issubclass(kind, self.only)


#: The tuple is replaced and never modified, because any thread may read it.
_subscriptions: tuple[Subscription, ...] = ()


@overload
def subscribe(receiver: R, *, only: Kinds = ()) -> R: ...


@overload
def subscribe(receiver: None = None, *, only: Kinds = ()) -> Callable[[R], R]: ...


def subscribe(receiver: R | None = None, *, only: Kinds = ()) -> R | Callable[[R], R]:
    """Call `receiver` with every event of this process, or only with events of the classes `only`; also a decorator.

    The receiver is called where the event is emitted, usually in the event loop: it must be quick, and not async.
    An exception in a receiver is reported and affects nothing else. Subscribing a receiver again replaces its `only`.
    """
    kinds = (only,) if isinstance(only, type) else tuple(only)

    def register(receiver: R) -> R:
        if not callable(receiver) or _is_async(receiver):
            raise TypeError(f"a subscriber must be a function that is not async, not {receiver!r}")
        if wrong := [kind for kind in kinds if not (isinstance(kind, type) and issubclass(kind, Event))]:
            raise TypeError(f"only must contain event classes, not {', '.join(map(repr, wrong))}")
        global _subscriptions
        others = [known for known in _subscriptions if known.receiver != receiver]
        _subscriptions = (*others, Subscription(receiver, kinds))
        return receiver

    return register if receiver is None else register(receiver)


def _is_async(receiver: Receiver) -> bool:
    return inspect.iscoroutinefunction(receiver) or inspect.iscoroutinefunction(type(receiver).__call__)


def unsubscribe(receiver: Receiver) -> None:
    """Stop calling `receiver`. Does nothing if it was not subscribed."""
    global _subscriptions
    _subscriptions = tuple(known for known in _subscriptions if known.receiver != receiver)


class Events:
    """Emits the events of a process to its own subscribers (by default the log) and to those of `subscribe`."""

    def __init__(self, subscribers: Sequence[Receiver | Subscription] = ()) -> None:
        self._own = [s if isinstance(s, Subscription) else Subscription(s) for s in subscribers or [log]]

    def add(self, receiver: Receiver, only: tuple[type[Event], ...] = ()) -> None:
        """Add a subscriber of this process, for all events or only those of these classes."""
        self._own.append(Subscription(receiver, only))

    def is_wanted(self, kind: type[Event]) -> bool:
        """Whether a subscriber wants events of this class; for events that are expensive to create or frequent."""
        return any(known.wants(kind) for known in (*self._own, *_subscriptions))

    def emit(self, event: Event) -> None:
        kind = type(event)
        for known in (*self._own, *_subscriptions):
            if known.wants(kind):
                try:
                    known.receiver(event)
                except (
                    BaseException
                ) as error:  # a receiver may raise CancelledError, which would end the service that emits
                    self._report(event, known, error)

    def _report(self, event: Event, failed: Subscription, error: BaseException) -> None:
        where = f"the subscriber {name_of(failed.receiver)} failed on {type(event).__name__}"
        fault = RuntimeFault(where=where, error=traceback_of(error), exception=error)
        with suppress(BaseException):  # logging itself may fail: a filter that raises, for example
            logger.error(fault.text, vars(fault), extra={"event": "RuntimeFault"})
        for known in (*self._own, *_subscriptions):
            # The failed subscriber does not receive its own failure. A failure in this call is logged and not emitted.
            if known.receiver not in (failed.receiver, log) and known.wants(RuntimeFault):
                try:
                    known.receiver(fault)
                except BaseException:
                    with suppress(BaseException):
                        logger.exception("a subscriber failed while it received the failure of another subscriber")


def log(event: Event) -> None:
    """The subscriber that writes log lines."""
    if logger.isEnabledFor(event.level):
        logger.log(event.level, event.format_text(), vars(event), extra={"event": type(event).__name__})


def emit(event: Event) -> None:
    """Emit an event outside of a Steady Queue process: in a web request, for example."""
    _outside.emit(event)


_outside = Events()
