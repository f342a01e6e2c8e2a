"""Who hears events. `subscribe` is for everybody: code of users, in whichever process it is imported."""

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

logger = logging.getLogger("steady_queue")
logger.addFilter(LengthLimit())


class Subscription(NamedTuple):
    """Somebody who hears events of some kinds, and of those that come from them; of all, if none is named."""

    receiver: Receiver
    only: tuple[type[Event], ...] = ()

    def wants(self, kind: type[Event]) -> bool:
        if self.receiver is log:
            return logger.isEnabledFor(kind.level)
        return not self.only or issubclass(kind, self.only)


#: Replaced, never changed: it may be read in any thread.
_subscriptions: tuple[Subscription, ...] = ()


@overload
def subscribe(receiver: R, *, only: Kinds = ()) -> R: ...


@overload
def subscribe(receiver: None = None, *, only: Kinds = ()) -> Callable[[R], R]: ...


def subscribe(receiver: R | None = None, *, only: Kinds = ()) -> R | Callable[[R], R]:
    """Call it with every event of this process, or only with some kinds; also as a decorator.

    It is called where the event happens, mostly in the event loop: it must be quick, and must not be async. One that
    raises is reported and does no harm. Once more only changes the kinds.
    """
    kinds = (only,) if isinstance(only, type) else tuple(only)

    def register(receiver: R) -> R:
        if not callable(receiver) or _is_async(receiver):
            raise TypeError(f"a subscriber must be a function that is not async, not {receiver!r}")
        if wrong := [kind for kind in kinds if not (isinstance(kind, type) and issubclass(kind, Event))]:
            raise TypeError(f"these are no kinds of events: {', '.join(map(repr, wrong))}")
        global _subscriptions
        others = [known for known in _subscriptions if known.receiver != receiver]
        _subscriptions = (*others, Subscription(receiver, kinds))
        return receiver

    return register if receiver is None else register(receiver)


def _is_async(receiver: Receiver) -> bool:
    return inspect.iscoroutinefunction(receiver) or inspect.iscoroutinefunction(type(receiver).__call__)


def unsubscribe(receiver: Receiver) -> None:
    """Tell it no more; nothing happens if it was told nothing."""
    global _subscriptions
    _subscriptions = tuple(known for known in _subscriptions if known.receiver != receiver)


class Events:
    """Where services tell what happened. Hears it: who is named here, or else the log; and who has subscribed."""

    def __init__(self, subscribers: Sequence[Receiver | Subscription] = ()) -> None:
        self._own = [s if isinstance(s, Subscription) else Subscription(s) for s in subscribers or [log]]

    def add(self, receiver: Receiver) -> None:
        """Let one more hear it."""
        self._own.append(Subscription(receiver))

    def is_wanted(self, kind: type[Event]) -> bool:
        """Whether anybody does: asked before what is dear to make or told very often."""
        return any(known.wants(kind) for known in (*self._own, *_subscriptions))

    def emit(self, event: Event) -> None:
        kind = type(event)
        for known in (*self._own, *_subscriptions):
            if known.wants(kind):
                try:
                    known.receiver(event)
                except BaseException as error:  # a cancellation that is made up would end the service that tells this
                    self._report(event, known, error)

    def _report(self, event: Event, failed: Subscription, error: BaseException) -> None:
        where = f"the subscriber {name_of(failed.receiver)} failed on {type(event).__name__}"
        fault = RuntimeFault(where=where, error=traceback_of(error), exception=error)
        with suppress(BaseException):  # the log itself may be what fails: a filter that raises, say
            logger.error(fault.text, vars(fault), extra={"event": "RuntimeFault"})
        for known in (*self._own, *_subscriptions):
            # The one that fails is not told of its failure, and whoever fails on this is not told of at all.
            if known.receiver not in (failed.receiver, log) and known.wants(RuntimeFault):
                try:
                    known.receiver(fault)
                except BaseException:
                    with suppress(BaseException):
                        logger.exception("a subscriber of events failed on the failure of another")


def log(event: Event) -> None:
    """The subscriber that writes log lines."""
    if logger.isEnabledFor(event.level):
        logger.log(event.level, event.text, vars(event), extra={"event": type(event).__name__})


def emit(event: Event) -> None:
    """Tell what happened outside of any process of ours: in a web request, say."""
    _outside.emit(event)


_outside = Events()
