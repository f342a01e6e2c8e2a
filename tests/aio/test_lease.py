"""The lease of a process, which it renews with each heartbeat."""

from __future__ import annotations

import pytest

from steady_queue.aio.lease import Lease
from tests.support.clock import ManualClock


def test_a_lease_expires_before_other_processes_may_prune_the_process() -> None:
    clock = ManualClock()
    lease = Lease(alive_seconds=100, clock=clock)
    clock.at += 89
    assert lease.is_held
    clock.at += 2
    assert not lease.is_held


def test_a_lease_counts_from_the_time_at_which_a_heartbeat_was_sent() -> None:
    clock = ManualClock()
    lease = Lease(alive_seconds=100, clock=clock)
    sent = clock.at + 50
    clock.at += 95
    lease.renew(sent)
    assert lease.is_held
    assert lease.seconds_since_heartbeat == pytest.approx(45)
    clock.at = sent + 91
    assert not lease.is_held


def test_an_old_heartbeat_does_not_shorten_the_lease() -> None:
    clock = ManualClock()
    lease = Lease(alive_seconds=100, clock=clock)
    lease.renew(clock.at + 10)
    until = lease.expires_at
    lease.renew(clock.at - 500)
    assert lease.expires_at == until
