"""Subscribers of events: each receives the kinds it wants, and the failure of one affects no other."""

from __future__ import annotations

import logging
from asyncio import CancelledError

import pytest

from steady_queue import events
from steady_queue.events import (
    POLLING,
    DatabaseLost,
    Event,
    Events,
    Fault,
    JobsCleared,
    JobsPromoted,
    Polled,
    QueueNotServed,
    RuntimeFault,
    subscribe,
    unsubscribe,
)

CLEARED = JobsCleared(count=1, status="finished")
PROMOTED = JobsPromoted(by="maintenance", count=1)


def test_a_subscriber_receives_all_events_or_those_of_some_kinds_until_it_unsubscribes() -> None:
    everything: list[Event] = []
    some: list[Event] = []
    faults: list[Event] = []

    @subscribe
    def receive(event: Event) -> None:
        everything.append(event)

    @subscribe(only=[JobsCleared])
    def receive_some(event: JobsCleared) -> None:
        some.append(event)

    subscribe(faults.append, only=[Fault])
    lost = DatabaseLost(service="heartbeat", error="away", exception=OSError("away"))
    for event in (CLEARED, PROMOTED, lost):
        Events().emit(event)
    unsubscribe(receive)
    unsubscribe(receive)
    events.emit(CLEARED)
    assert everything == [CLEARED, PROMOTED, lost]
    assert some == [CLEARED, CLEARED]
    assert faults == [lost]


def test_a_function_that_is_subscribed_twice_receives_each_event_once() -> None:
    received: list[Event] = []

    def receive(event: Event) -> None:
        received.append(event)

    subscribe(receive)
    subscribe(receive, only=[JobsCleared])
    events.emit(CLEARED)
    events.emit(PROMOTED)
    assert received == [CLEARED]


def test_a_subscriber_that_raises_is_reported_to_the_others_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    received: list[Event] = []

    @subscribe
    def broken(event: Event) -> None:
        raise LookupError("on purpose")

    subscribe(received.append)
    events.emit(CLEARED)
    assert [type(event) for event in received] == [RuntimeFault, JobsCleared]
    (fault,) = [event for event in received if isinstance(event, RuntimeFault)]
    assert isinstance(fault.exception, LookupError)
    assert "broken failed on JobsCleared" in fault.where
    assert "on purpose" in caplog.text


def test_two_subscribers_that_always_raise_do_not_call_each_other_forever(caplog: pytest.LogCaptureFixture) -> None:
    for number in range(2):

        @subscribe
        def broken(event: Event, number: int = number) -> None:
            raise LookupError(f"on purpose {number}")

    events.emit(CLEARED)
    assert caplog.text.count("failed on JobsCleared") == 2


@pytest.mark.parametrize("error", [CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_after_any_exception_the_other_subscribers_receive_the_event_and_the_emitter_goes_on(
    error: type[BaseException],
) -> None:
    received: list[Event] = []

    @subscribe
    def broken(event: Event) -> None:
        raise error("on purpose")

    @subscribe(only=[RuntimeFault])
    def broken_as_well(event: Event) -> None:
        raise error("on purpose")

    subscribe(received.append)
    Events().emit(CLEARED)
    assert [type(event) for event in received] == [RuntimeFault, JobsCleared]


def test_a_log_that_fails_is_reported_to_the_subscribers_and_does_no_harm() -> None:
    received: list[Event] = []

    def refuse(record: logging.LogRecord) -> bool:
        raise LookupError("on purpose")

    subscribe(received.append)
    logger = logging.getLogger("steady_queue")
    logger.addFilter(refuse)
    try:
        events.emit(QueueNotServed(where="mail"))
    finally:
        logger.removeFilter(refuse)
    assert [type(event) for event in received] == [RuntimeFault, QueueNotServed]


def test_a_subscriber_whose_repr_raises_is_reported() -> None:
    class Shy:
        def __call__(self, event: Event) -> None:
            raise LookupError("on purpose")

        def __repr__(self) -> str:
            raise LookupError("no name")

    received: list[RuntimeFault] = []
    subscribe(Shy())
    subscribe(received.append, only=RuntimeFault)
    events.emit(CLEARED)
    (fault,) = received
    assert "Shy that cannot be shown" in fault.where


@pytest.mark.parametrize("only", [[int], ["JobFailed"], int])
def test_only_event_classes_can_be_subscribed_to(only: list[type[Event]]) -> None:
    with pytest.raises(TypeError, match="only must contain event classes"):
        subscribe(print, only=only)


def test_an_async_subscriber_is_refused() -> None:
    async def receive(event: Event) -> None: ...

    class Push:
        async def __call__(self, event: Event) -> None: ...

    for receiver in (receive, Push()):
        with pytest.raises(TypeError, match="not async"):
            subscribe(receiver)


def test_polls_are_emitted_only_if_the_log_or_a_subscriber_wants_them(caplog: pytest.LogCaptureFixture) -> None:
    emitter = Events()
    with caplog.at_level(logging.DEBUG, "steady_queue"):
        assert not emitter.is_wanted(Polled)
        assert emitter.is_wanted(JobsCleared)
    with caplog.at_level(POLLING, "steady_queue"):
        assert emitter.is_wanted(Polled)
    with caplog.at_level(logging.INFO, "steady_queue"):
        assert not emitter.is_wanted(JobsCleared)
        subscribe(print, only=[Polled])
        assert emitter.is_wanted(Polled)
        assert not emitter.is_wanted(JobsCleared)


def test_an_event_shows_its_fields_and_cannot_be_changed() -> None:
    assert repr(CLEARED) == "JobsCleared(count=1, status='finished')"
    with pytest.raises(AttributeError, match="cannot be changed"):
        CLEARED.count = 2  # type: ignore[misc]
