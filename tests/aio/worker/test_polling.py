"""The small parts of the runtime, each by itself."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from steady_queue.aio import identity
from steady_queue.aio.identity import describe, is_gone, start_time
from steady_queue.aio.lease import Lease
from steady_queue.aio.worker.polling import AFTER_WORK_SECONDS, BURST, GAP_SECONDS, LISTENING_SECONDS, PollingInterval
from steady_queue.aio.worker.queues import expand
from steady_queue.events.tracebacks import MESSAGE_LENGTH
from steady_queue.processes import ProcessExitError
from steady_queue.store.operations.prune import RegisteredProcess
from steady_queue.store.outcome import report, report_of


class Hand:
    """A clock whose hand the test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def monotonic(self) -> float:
        return self.at


def test_trust_ends_before_others_may_take_the_process_for_dead() -> None:
    clock = Hand()
    trust = Lease(alive_seconds=100, clock=clock)
    clock.at += 89
    assert trust.is_held
    clock.at += 2
    assert not trust.is_held


def test_trust_counts_from_when_a_heartbeat_was_sent() -> None:
    clock = Hand()
    trust = Lease(alive_seconds=100, clock=clock)
    sent = clock.at + 50
    clock.at += 95
    trust.renew(sent)
    assert trust.is_held
    assert trust.seconds_since_heartbeat == pytest.approx(45)
    clock.at = sent + 91
    assert not trust.is_held


def test_an_old_heartbeat_does_not_shorten_trust() -> None:
    clock = Hand()
    trust = Lease(alive_seconds=100, clock=clock)
    trust.renew(clock.at + 10)
    until = trust.expires_at
    trust.renew(clock.at - 500)
    assert trust.expires_at == until


def test_a_worker_looks_again_quickly_after_a_find_and_then_at_its_interval() -> None:
    pace = PollingInterval(0.1, lambda: False)
    pauses = [pace.next_pause(found=True), *(pace.next_pause(found=False) for _ in range(4))]
    assert pauses == [AFTER_WORK_SECONDS[0], AFTER_WORK_SECONDS[1], 0.1, 0.1, 0.1]
    assert pace.next_pause(found=True) == AFTER_WORK_SECONDS[0]


def test_a_wake_starts_the_quick_looks_anew() -> None:
    pace = PollingInterval(5, lambda: False)
    for _ in range(4):
        pace.next_pause(found=False)
    pace.count_wake_up(100.0)
    assert [pace.next_pause(found=False) for _ in range(4)] == [*AFTER_WORK_SECONDS, 5]


def test_wake_ups_are_answered_at_once_until_they_do_not_cease() -> None:
    pace = PollingInterval(5, lambda: False)
    assert [pace.count_wake_up(100.0) for _ in range(BURST)] == [0.0] * BURST
    assert pace.count_wake_up(100.0) == GAP_SECONDS
    assert [pace.count_wake_up(100.0) for _ in range(500)] == [GAP_SECONDS] * 500
    assert pace.count_wake_up(100.0 + 2 * GAP_SECONDS) == pytest.approx(0)
    assert [pace.count_wake_up(200.0) for _ in range(BURST)] == [0.0] * BURST


def test_a_listener_that_hears_lets_a_worker_sleep_longer_but_never_less() -> None:
    hears = True
    quick, slow = PollingInterval(0.1, lambda: hears), PollingInterval(7, lambda: hears)
    for pace in (quick, slow):
        for _ in AFTER_WORK_SECONDS:
            pace.next_pause(found=False)
    assert (quick.next_pause(found=False), slow.next_pause(found=False)) == (LISTENING_SECONDS, 7)
    hears = False
    assert quick.next_pause(found=False) == 0.1


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["b", "a"], ["b", "a"]),
        (["mail_*"], ["mail_a", "mail_b"]),
        (["mail_b", "mail_*"], ["mail_b", "mail_a"]),
        (["mail_*", "mail_b"], ["mail_a", "mail_b"]),
        (["missing"], ["missing"]),
        (["*_a", "m*l"], []),
        (["mail_*", "other", "mail_a"], ["mail_a", "mail_b", "other"]),
        ([], []),
    ],
)
def test_patterns_stand_for_names_in_their_order(patterns: list[str], expected: list[str]) -> None:
    assert expand(patterns, ["mail_a", "mail_b", "other"]) == expected


def test_a_report_keeps_the_beginning_and_the_end_of_a_long_message() -> None:
    message = report_of(ValueError("begin" + "x" * 1_000_000 + "end")).message
    assert message.startswith("begin")
    assert message.endswith("end")
    assert "characters left out" in message
    assert len(message) < MESSAGE_LENGTH + 100


def test_a_report_of_an_error_that_was_never_raised_has_its_path() -> None:
    found = report(ProcessExitError, "it\x00went")
    assert found.exception_class == "steady_queue.processes.ProcessExitError"
    assert found.message == "it\\x00went"
    assert found.traceback == "steady_queue.processes.ProcessExitError: it\\x00went\n"


class Hostile(Exception):
    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__


def test_a_report_survives_an_exception_that_fights_back() -> None:
    try:
        raise Hostile from Hostile()
    except Hostile as error:
        found = report_of(error)
    assert found.exception_class.endswith("Hostile")
    assert found.message == "<the exception cannot be shown>"
    assert "Hostile" in found.traceback


def registered(pid: int, metadata: str) -> RegisteredProcess:
    import uuid

    return RegisteredProcess(uuid.uuid4(), "name", pid, "host", metadata, None, datetime.now(UTC))


def test_this_very_process_is_not_gone_and_another_with_its_id_is() -> None:
    mine = describe([])
    assert not is_gone(registered(os.getpid(), mine))
    assert is_gone(registered(os.getpid(), mine.replace(str(start_time(os.getpid())), "1")))


@pytest.mark.parametrize("metadata", ["", "{}", "[]", "null", "nonsense", '{"boot": "other", "started": "1"}'])
def test_in_doubt_a_process_is_not_gone(metadata: str) -> None:
    assert not is_gone(registered(2**22 + 1, metadata))


def test_a_process_that_the_system_hides_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with /proc mounted so that a user sees only his own."""
    mine = describe([])
    monkeypatch.setattr(identity, "start_time", lambda pid: None)
    assert not is_gone(registered(os.getppid(), mine))
    assert is_gone(registered(2**22 + 1, mine))
