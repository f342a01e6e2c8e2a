"""What ran in the last hour and day, summed from what the processes have counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import pytest

import steady_queue
from steady_queue import actions
from steady_queue.models import TaskStatistics
from steady_queue.monitoring.queue_list import read_queues
from steady_queue.monitoring.statistics import (
    MAX_NAMES,
    add_hours,
    hours_by_queue,
    incomplete_minutes,
    rate_of,
    rates_by_task,
    read_day,
    read_hour,
)

NOW = datetime(2026, 5, 4, 12, 30, 20, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
_SUMS = {
    "started": 12,
    "finished": 6,
    "failed": 1,
    "retried": 3,
    "run_milliseconds": 5_000,
    "longest_run_milliseconds": 900,
    "waits": 10,
    "wait_milliseconds": 20_000,
    "longest_wait_milliseconds": 4_000,
}


def add(alias: str, at: datetime, seconds: int = 60, **options: Any) -> None:
    process_id = uuid4() if seconds == 60 else UUID(int=0)
    row = {"process_id": process_id, "queue_name": "mail", "task_path": "shop.tasks.send", **_SUMS, **options}
    TaskStatistics.objects.using(alias).create(seconds=seconds, starts_at=at, **row)


def test_the_minutes_of_all_processes_are_added_up(database: str) -> None:
    at = datetime(2026, 5, 4, 12, 29, tzinfo=UTC)
    add(database, at)
    add(database, at, longest_run_milliseconds=1_500, queue_name="reports")
    add(database, at - timedelta(hours=2))
    hour = read_hour(NOW)
    assert len(hour) == 60
    assert (hour[0].at, hour[-1].at) == (datetime(2026, 5, 4, 11, 31, tzinfo=UTC), NOW.replace(second=0))
    assert [point.at for point in hour if point.ended] == [at]
    point = hour[-2]
    assert (point.started, point.finished, point.failed, point.retried, point.ended) == (24, 12, 2, 6, 20)
    assert (point.mean_run_seconds, point.longest_run_seconds) == (0.5, 1.5)
    assert (point.mean_wait_seconds, point.longest_wait_seconds) == (2.0, 4.0)
    assert hour[-1].mean_run_seconds is None


def test_a_day_has_hours_and_the_minutes_that_are_not_added_to_them_yet(database: str) -> None:
    eight, ten = (datetime(2026, 5, 4, hour, tzinfo=UTC) for hour in (8, 10))
    add(database, eight, seconds=3600, started=100)
    add(database, eight + 59 * MINUTE)
    add(database, ten + 5 * MINUTE)
    add(database, ten + 5 * MINUTE, task_path="shop.tasks.other")
    add(database, eight - timedelta(days=2), seconds=3600)
    day = read_day(NOW)
    assert len(day) == 24
    assert day[-1].at == datetime(2026, 5, 4, 12, tzinfo=UTC)
    assert {point.at: point.started for point in day if point.started} == {eight: 112, ten: 24}


@pytest.mark.parametrize("minutes", [0, 330])
def test_a_day_has_the_same_hours_in_every_time_zone(database: str, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    add(database, datetime(2026, 5, 4, 8, tzinfo=UTC), seconds=3600, started=100)
    assert {point.at.hour for point in read_day(NOW.astimezone(zone)) if point.started == 100} == {8}


@pytest.mark.usually_on("postgres")
def test_rates_are_means_of_complete_minutes(database: str) -> None:
    current = NOW.replace(second=0)
    add(database, current, finished=1_000)
    # Some processes may not have sent a heartbeat since this minute ended.
    add(database, current - MINUTE, finished=1_000)
    add(database, current - 2 * MINUTE)
    add(database, current - 7 * MINUTE, queue_name="reports", task_path="shop.tasks.report")
    queues = hours_by_queue(NOW)
    assert list(queues) == ["mail", "reports"]
    assert list(hours_by_queue(NOW, ["reports"])) == ["reports"]
    mail, reports = rate_of(queues["mail"]), rate_of(queues["reports"])
    assert (mail.per_minute, mail.failures_per_minute) == (2.0, 0.8)
    assert (mail.hourly_per_minute, mail.hourly_failures_per_minute) == pytest.approx((10 / 58, 4 / 58))
    assert (reports.per_minute, reports.hourly_per_minute) == pytest.approx((0.0, 10 / 58))
    assert rates_by_task(NOW) == {"shop.tasks.report": reports, "shop.tasks.send": mail}
    assert rate_of([]).per_minute == 0.0


@pytest.mark.parametrize(("seconds", "minutes"), [(5, 2), (60, 2), (61, 3), (600, 11), (86_400, 55)])
def test_minutes_that_processes_may_not_have_written_are_not_complete(
    monkeypatch: pytest.MonkeyPatch, seconds: int, minutes: int
) -> None:
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=seconds))
    assert incomplete_minutes() == minutes


@pytest.mark.usually_on("postgres")
def test_of_very_many_queues_the_first_are_complete_and_others_can_be_named(database: str) -> None:
    at = NOW.replace(second=0) - 3 * MINUTE
    rows = [
        TaskStatistics(seconds=60, starts_at=at - minute * MINUTE, queue_name=f"queue {number:03}", **{
            "process_id": UUID(int=1), "task_path": "shop.tasks.send", **_SUMS,
        })
        for number in reversed(range(MAX_NAMES + 50))
        for minute in range(50)
    ]  # fmt: skip
    TaskStatistics.objects.using(database).bulk_create(rows)
    hours = hours_by_queue(NOW)
    assert list(hours) == [f"queue {number:03}" for number in range(MAX_NAMES)]
    assert {sum(point.ended for point in hour) for hour in hours.values()} == {500}
    last = f"queue {MAX_NAMES + 49:03}"
    actions.pause(last)
    queues = {row.name: row for row in read_queues(NOW)}
    assert len(queues) == MAX_NAMES
    assert queues[last].rate_per_minute == 8  # of the last five complete minutes one is empty
    assert sum(queues[last].sparkline) == 500


@pytest.mark.usually_on("postgres")
def test_the_hours_of_all_queues_together_are_the_hour(database: str) -> None:
    current = NOW.replace(second=0)
    add(database, current - MINUTE)
    add(database, current - MINUTE, queue_name="reports", run_milliseconds=90_000, longest_run_milliseconds=60_000)
    add(database, current - 3 * MINUTE, queue_name="reports", finished=0, failed=0, retried=0)
    assert add_hours(hours_by_queue(NOW).values(), NOW) == read_hour(NOW)
