"""How long a worker waits before it polls again."""

from __future__ import annotations

import pytest

from steady_queue.aio.worker.polling import AFTER_WORK_SECONDS, BURST, GAP_SECONDS, LISTENING_SECONDS, PollingInterval


def test_a_worker_polls_again_quickly_after_a_claim_and_then_at_its_interval() -> None:
    interval = PollingInterval(0.1, lambda: False)
    pauses = [interval.next_pause(found=True), *(interval.next_pause(found=False) for _ in range(4))]
    assert pauses == [AFTER_WORK_SECONDS[0], AFTER_WORK_SECONDS[1], 0.1, 0.1, 0.1]
    assert interval.next_pause(found=True) == AFTER_WORK_SECONDS[0]


def test_a_wake_restarts_the_quick_polls() -> None:
    interval = PollingInterval(5, lambda: False)
    for _ in range(4):
        interval.next_pause(found=False)
    interval.count_wake_up(100.0)
    assert [interval.next_pause(found=False) for _ in range(4)] == [*AFTER_WORK_SECONDS, 5]


def test_wake_ups_are_answered_at_once_until_there_are_too_many() -> None:
    interval = PollingInterval(5, lambda: False)
    assert [interval.count_wake_up(100.0) for _ in range(BURST)] == [0.0] * BURST
    assert interval.count_wake_up(100.0) == GAP_SECONDS
    assert [interval.count_wake_up(100.0) for _ in range(500)] == [GAP_SECONDS] * 500
    assert interval.count_wake_up(100.0 + 2 * GAP_SECONDS) == pytest.approx(0)
    assert [interval.count_wake_up(200.0) for _ in range(BURST)] == [0.0] * BURST


def test_a_connected_listener_lengthens_the_polling_interval_and_never_shortens_it() -> None:
    is_listening = True
    quick, slow = PollingInterval(0.1, lambda: is_listening), PollingInterval(7, lambda: is_listening)
    for interval in (quick, slow):
        for _ in AFTER_WORK_SECONDS:
            interval.next_pause(found=False)
    assert (quick.next_pause(found=False), slow.next_pause(found=False)) == (LISTENING_SECONDS, 7)
    is_listening = False
    assert quick.next_pause(found=False) == 0.1
