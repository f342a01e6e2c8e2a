"""Which blocked job gets which slot of its concurrency key, and the lock id of a key."""

from __future__ import annotations

from uuid import UUID

import pytest

from steady_queue.store.names import LOCK_ID_COUNT
from steady_queue.store.operations.promote import Grant, allocate_slots, lock_id

# -- who gets which slot ----------------------------------------------------------------------------------------------

ONE, TWO, THREE, FOUR = (UUID(int=n) for n in range(1, 5))


def test_candidates_get_slots_in_their_order_while_there_are_any() -> None:
    candidates = [("k", ONE, 2, "p"), ("k", TWO, 2, "p"), ("k", THREE, 2, "p")]
    assert allocate_slots({"k": set()}, candidates, {}) == [Grant(ONE, "k", 1), Grant(TWO, "k", 2)]


def test_a_full_key_grants_nothing() -> None:
    assert allocate_slots({"k": {1, 2}}, [("k", ONE, 2, "p")], {}) == []


def test_a_key_that_is_over_its_limit_grants_nothing() -> None:
    assert allocate_slots({"k": {1, 2, 3}}, [("k", ONE, 2, "p")], {}) == []


def test_rows_are_counted_with_any_slot_numbers() -> None:
    assert allocate_slots({"k": {7, 9}}, [("k", ONE, 2, "p")], {}) == []


def test_the_lowest_free_numbers_are_given() -> None:
    candidates = [("k", ONE, 5, "p"), ("k", TWO, 5, "p"), ("k", THREE, 5, "p")]
    assert [grant.slot for grant in allocate_slots({"k": {2, 4}}, candidates, {})] == [1, 3, 5]


def test_the_first_refusal_ends_the_turn_of_its_key() -> None:
    # The next candidate's own limit would let it in; it may not overtake the one that was refused.
    candidates = [("k", ONE, 1, "strict"), ("k", TWO, 9, "lax")]
    assert allocate_slots({"k": {1}}, candidates, {}) == []


def test_a_refusal_does_not_end_the_turn_of_another_key() -> None:
    candidates = [("a", ONE, 1, "p"), ("b", TWO, 1, "p"), ("a", THREE, 1, "p"), ("b", FOUR, 1, "p")]
    assert allocate_slots({"a": {1}, "b": set()}, candidates, {}) == [Grant(TWO, "b", 1)]


def test_the_limit_in_force_wins_over_the_stored_one() -> None:
    candidates = [("k", ONE, 1, "p"), ("k", TWO, 1, "p")]
    assert len(allocate_slots({"k": set()}, candidates, {"p": 2})) == 2
    assert allocate_slots({"k": {1}}, [("k", ONE, 5, "p")], {"p": 1}) == []


def test_the_stored_limit_serves_for_tasks_that_the_code_does_not_know() -> None:
    candidates = [("k", ONE, 2, "gone"), ("k", TWO, 2, "gone")]
    assert len(allocate_slots({"k": set()}, candidates, {"p": 1})) == 2


def test_a_job_without_a_limit_counts_as_one_at_a_time() -> None:
    candidates = [("k", ONE, None, "p"), ("k", TWO, None, "p")]
    assert len(allocate_slots({"k": set()}, candidates, {})) == 1


def test_the_slots_in_use_are_not_changed() -> None:
    taken = {"k": {1}}
    allocate_slots(taken, [("k", ONE, 2, "p")], {})
    assert taken == {"k": {1}}


# -- lock ids ---------------------------------------------------------------------------------------------------------


KNOWN = [("", 0), ("123456789", 0xCBF43926 % LOCK_ID_COUNT), ("key", 0x8A90ABA9 % LOCK_ID_COUNT)]


@pytest.mark.parametrize(("key", "expected"), KNOWN)
def test_a_key_has_the_same_lock_id_in_every_version(key: str, expected: int) -> None:
    # Two versions that run at the same time must agree.
    assert lock_id(key) == expected


def test_lock_ids_are_spread_over_their_whole_range() -> None:
    ids = {lock_id(f"tests.shop.tasks.pay/{number}") for number in range(20_000)}
    assert ids == set(range(LOCK_ID_COUNT))


@pytest.mark.parametrize("key", ["\ud800", "\x00", "😀", "x" * 10_000])
def test_every_text_has_a_lock_id(key: str) -> None:
    assert 0 <= lock_id(key) < LOCK_ID_COUNT
