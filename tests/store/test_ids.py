"""Job ids: created by the client, rising and unique."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import RFC_4122, UUID

from steady_queue.store import ids as identity
from steady_queue.store.ids import new_claim_id, new_job_ids, parse_uuid
from tests.support.store.jobs import new_job_id
from tests.support.threads import together

if TYPE_CHECKING:
    import pytest


def test_an_id_is_a_version_7_uuid_of_the_right_variant() -> None:
    for id_ in new_job_ids(1_000):
        assert (id_.version, id_.variant) == (7, RFC_4122)


def test_an_id_that_a_caller_passes_is_itself_or_its_text() -> None:
    id_ = new_job_id()
    assert parse_uuid(id_) is id_
    assert [parse_uuid(given) for given in (str(id_), id_.hex, "", "x", None, 7)] == [id_, id_, None, None, None, None]


def test_an_id_equals_the_same_id_made_the_slow_way() -> None:
    id_ = new_job_id()
    assert (id_, hash(id_), str(id_)) == (UUID(str(id_)), hash(UUID(str(id_))), str(UUID(int=id_.int)))


def test_an_id_contains_the_millisecond_of_its_creation() -> None:
    # A process that has used up a millisecond's numbers borrows the next one, never more.
    before = time.time_ns() // 1_000_000
    millisecond = new_job_id().int >> 80
    assert before <= millisecond <= time.time_ns() // 1_000_000 + 1


def test_ids_rise_strictly_within_a_call_and_between_calls() -> None:
    ids = [*new_job_ids(5_000), *(new_job_id() for _ in range(5_000)), *new_job_ids(3)]
    assert all(one < next_ for one, next_ in pairwise(ids))


def test_ten_thousand_ids_are_unique() -> None:
    assert len(set(new_job_ids(10_000))) == 10_000


def test_no_ids_are_none() -> None:
    assert new_job_ids(0) == []


def test_ids_of_several_threads_are_unique_and_rise_in_each_of_them() -> None:
    made = together(*[lambda: [new_job_id() for _ in range(2_000)] for _ in range(8)])
    assert len({id_ for ids in made for id_ in ids}) == 16_000
    assert all(ids == sorted(ids) for ids in made)


def test_an_id_is_greater_than_every_id_any_thread_had_before_it_was_asked_for() -> None:
    baton = threading.Lock()
    ids: list[UUID] = []

    def make() -> None:
        for _ in range(500):
            with baton:
                ids.append(new_job_id())

    together(*[make] * 4)
    assert ids == sorted(ids)


def test_ids_rise_although_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = new_job_id()
    monkeypatch.setattr(identity, "_last_millisecond", (time.time_ns() // 1_000_000) + 3_600_000)
    ahead = new_job_id()
    behind = new_job_id()
    assert before < ahead < behind


def test_ids_rise_when_a_milliseconds_numbers_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    future = (time.time_ns() // 1_000_000) + 3_600_000
    monkeypatch.setattr(identity, "_last_millisecond", future)
    monkeypatch.setattr(identity, "_counter", (1 << identity._COUNTER_BITS) - 5)
    last = new_job_ids(3)[-1]
    first, *_, end = new_job_ids(10)
    assert (last.int >> 80, first.int >> 80) == (future, future + 1)
    assert last < first < end


def test_two_ids_of_one_moment_differ_in_more_than_their_counter() -> None:
    one, two = new_job_ids(2)
    assert one.int & 0xFFFFFFFFFFFF != two.int & 0xFFFFFFFFFFFF


def test_claim_ids_are_random() -> None:
    ids = {new_claim_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert {id_.version for id_ in ids} == {4}
