"""The timetable of recurring tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steady_queue.aio.scheduler.timetable import MAX_STALE_LINES, Timetable
from steady_queue.errors import ConfigurationError, DeserializationError
from steady_queue.store.operations.recurring.entries import Entry, NewEntry

NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
PLAIN = NewEntry("key", "tests.shop.tasks.noop", "@hourly", "UTC", "none", "[1,[],{}]", None, None, "")


def entry(key: str = "key", *, updated_at: Any = NOW, counts_from: Any = NOW, last_tick: Any = None) -> Entry:
    return Entry(PLAIN._replace(task_key=key), False, updated_at, counts_from, last_tick)


def test_ticks_count_from_the_last_one_or_from_when_the_entry_says() -> None:
    table = Timetable()
    table.add(entry(updated_at=NOW, counts_from=NOW - 5 * HOUR), NOW)
    assert table.next_at == datetime(2026, 5, 1, 8, tzinfo=UTC)
    table.add(entry(updated_at=NOW, counts_from=NOW - 5 * HOUR, last_tick=NOW - 2 * HOUR), NOW)
    assert table.next_at == datetime(2026, 5, 1, 11, tzinfo=UTC)


def test_an_entry_that_is_edited_many_times_does_not_grow_the_heap() -> None:
    table = Timetable()
    for number in range(10):
        table.add(entry(f"other {number}"), NOW)
    for number in range(5_000):
        table.add(entry(updated_at=NOW + number * SECOND), NOW)
    assert len(table._lines) <= 2 * 11 + MAX_STALE_LINES
    assert len(table.due(NOW + HOUR, 1_000)) == 11


@pytest.mark.parametrize(
    "wrong",
    [{"updated_at": "garbage"}, {"counts_from": 1794852000}, {"last_tick": ""}],
    ids=["updated", "counts", "tick"],
)
def test_moments_that_cannot_be_read_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Timetable().add(entry(**wrong), NOW)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"catch_up": "sometimes"}, ConfigurationError),
        ({"arguments": "not json"}, DeserializationError),
        ({"arguments": "[1]"}, DeserializationError),
    ],
    ids=["catch_up", "text", "envelope"],
)
def test_what_could_not_be_enqueued_later_is_refused_at_once(wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Timetable().add(entry()._replace(new=PLAIN._replace(**wrong)), NOW)
