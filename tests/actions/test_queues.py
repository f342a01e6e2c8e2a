"""A queue as operators use it: size, latency, pause, resume."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from steady_queue.queues import Queue
from tests.support.databases.tables import counts
from tests.support.store.jobs import failed, job, later, limited

if TYPE_CHECKING:
    from tests.actions.conftest import Caller
    from tests.support.store.stores import SyncStore


def test_a_queue_without_tasks_is_empty_and_has_no_latency(caller: Caller) -> None:
    assert (caller.ask("nowhere", "size"), caller.ask("nowhere", "latency")) == (0, None)
    assert caller.ask("nowhere", "is_paused") is False
    assert caller.do(Queue, "all") == []


def test_the_size_counts_ready_tasks_of_the_queue_alone(store: SyncStore, caller: Caller) -> None:
    store.enqueue(*[job(queue_name="mail", lane=n % 2, priority=n) for n in range(7)])
    store.enqueue(job(), job(queue_name="mail", scheduled_at=later()), limited(queue_name="mail"))
    store.enqueue(limited(queue_name="mail"))
    assert caller.ask("mail", "size") == 8
    store.claim(store.worker(), 2, queues=["mail"])
    assert caller.ask("mail", "size") == 6


def test_the_latency_is_the_longest_wait_of_those_next_in_line(store: SyncStore, caller: Caller) -> None:
    now = store.now()
    long_ago, a_while_ago = now - timedelta(hours=3), now - timedelta(minutes=5)
    store.enqueue(job(queue_name="mail", priority=9, enqueued_at=a_while_ago), job(queue_name="mail", priority=9))
    assert timedelta(minutes=5) <= caller.ask("mail", "latency") < timedelta(minutes=6)
    store.enqueue(job(queue_name="mail", priority=-4, lane=1, enqueued_at=long_ago))
    store.enqueue(job(queue_name="other", enqueued_at=now - timedelta(days=9)))
    assert timedelta(hours=3) <= caller.ask("mail", "latency") < timedelta(hours=4)


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(seconds=-30), "0 s"),
        (timedelta(minutes=5, seconds=20), "5\xa0minutes"),
        (timedelta(hours=3, minutes=7, seconds=20), "3\xa0hours, 7\xa0minutes"),
    ],
)
def test_the_latency_can_be_shown_as_text(store: SyncStore, caller: Caller, ago: timedelta, words: str) -> None:
    assert caller.ask("mail", "human_latency") == ""
    store.enqueue(job(queue_name="mail", enqueued_at=store.now() - ago))
    assert caller.ask("mail", "human_latency") == words


def test_every_property_of_a_queue_is_read_again_each_time(store: SyncStore, caller: Caller) -> None:
    queue = Queue("mail")
    assert queue.size == 0
    store.enqueue(job(queue_name="mail"))
    assert queue.size == 1


def test_clearing_a_queue_leaves_what_is_not_ready_and_other_queues_alone(store: SyncStore, caller: Caller) -> None:
    store.claimed(job(queue_name="mail"))
    (broken,) = store.claimed(job(queue_name="mail"))
    store.settle(failed(broken))
    kept = [limited(queue_name="other"), limited(queue_name="mail"), job(queue_name="mail", scheduled_at=later())]
    store.enqueue(*kept, job(queue_name="mail"), job(queue_name="mail", priority=5, lane=1))
    assert caller("clear_queue", "mail") == 2
    assert store.status(*kept) == ["ready", "blocked", "scheduled"]
    assert counts(store.alias) == {"ready": 1, "blocked": 1, "scheduled": 1, "claimed": 1, "failed": 1}


def test_a_scheduled_task_waits_since_its_time(store: SyncStore, caller: Caller) -> None:
    now = store.now()
    store.enqueue(job(enqueued_at=now - timedelta(days=2), scheduled_at=now - timedelta(minutes=1)))
    assert timedelta(minutes=1) <= caller.ask("default", "latency") < timedelta(minutes=2)


def test_a_clock_that_goes_ahead_makes_no_negative_wait(store: SyncStore, caller: Caller) -> None:
    store.enqueue(job(enqueued_at=store.now() + timedelta(minutes=1)))
    assert caller.ask("default", "latency") == timedelta(0)


def test_from_a_paused_queue_nothing_is_claimed_until_it_is_resumed(store: SyncStore, caller: Caller) -> None:
    mail, other = job(queue_name="mail"), job()
    store.enqueue(mail, other)
    worker = store.worker()
    assert [caller("pause", "mail"), caller("pause", "mail")] == [True, False]
    assert caller.ask("mail", "is_paused") is True
    assert [claim.job_id for claim in store.claim(worker, 9)] == [other.id]
    assert store.claim(worker, 9, queues=["mail"]) == []
    assert [caller("resume", "mail"), caller("resume", "mail")] == [True, False]
    assert [claim.job_id for claim in store.claim(worker, 9, queues=["mail"])] == [mail.id]


def test_a_pause_stops_claims_alone(store: SyncStore, caller: Caller) -> None:
    holder, blocked = limited(queue_name="mail"), limited(queue_name="mail")
    store.enqueue(holder)
    caller("pause", "mail")
    store.enqueue(blocked, job(queue_name="mail"))
    caller("discard", holder.id)
    assert store.status(blocked) == ["ready"]
    assert counts(store.alias) == {"ready": 2}


def test_a_queue_does_all_that_the_actions_do(store: SyncStore, caller: Caller) -> None:
    store.enqueue(job(queue_name="mail"), job(queue_name="b"))
    queue = Queue("mail")
    assert [caller.do(queue, "pause"), caller.do(queue, "resume"), caller.do(queue, "pause")] == [True, True, True]
    assert caller.do(queue, "clear") == 1
    assert caller.do(Queue, "all") == [Queue("b"), queue]
    assert str(queue) == "mail"


@pytest.mark.parametrize("name", ["x%' OR 1=1--", "_", "\\", "🐎", "a b", "A"])
def test_any_name_means_itself_alone(store: SyncStore, caller: Caller, name: str) -> None:
    store.enqueue(job(queue_name=name), job(queue_name="a"), job(queue_name="🐢"))
    caller("pause", name)
    assert (caller.ask(name, "size"), caller.ask(name, "is_paused")) == (1, True)
    assert (caller.ask("a", "is_paused"), caller.ask("🐢", "is_paused")) == (False, False)
    assert caller.do(Queue, "all") == sorted([Queue("a"), Queue(name), Queue("🐢")])
    assert len(store.claim(store.worker(), 9)) == 2
    assert caller("clear_queue", name) == 1


def test_a_queue_without_a_name_can_be_looked_at_and_cleared_and_not_be_paused(
    store: SyncStore, caller: Caller
) -> None:
    """It cannot be enqueued in; its tasks were stored by an earlier version."""
    store.enqueue(job(queue_name=""), job(queue_name="a"))
    with pytest.raises(ValueError, match="the queue '' has an empty name"):
        caller("pause", "")
    assert caller.ask("", "size") == 1
    assert caller.do(Queue, "all") == [Queue(""), Queue("a")]
    assert caller("clear_queue", "") == 1
    assert counts(store.alias) == {"ready": 1}


@pytest.mark.parametrize("name", [None, 5, "x" * 256, "a\x00", "\ud800"])
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="queue"):
        Queue(name)


@pytest.mark.parametrize("name", ["mail*", " mail", "mail "])
def test_a_queue_that_no_worker_option_can_express_is_not_paused(store: SyncStore, caller: Caller, name: str) -> None:
    with pytest.raises(ValueError, match=f"the queue {re.escape(repr(name))} has"):
        caller("pause", name)
    assert Queue.all() == []
