"""Recurring tasks as people see them: words, last and next runs, late ones, history, and the load of the coming day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from steady_queue import disable_recurring_task, schedule_recurring_task
from steady_queue.errors import ConfigurationError
from steady_queue.models import Job, ReadyExecution, RecurringExecution, RecurringTask
from steady_queue.monitoring.jobs.current_state import read_states
from steady_queue.monitoring.recurring import calendar as recurring_calendar
from steady_queue.monitoring.recurring.calendar import read_calendar
from steady_queue.monitoring.recurring.late_schedules import find_late_schedules
from steady_queue.monitoring.recurring.schedule_words import describe_schedule
from steady_queue.monitoring.recurring.tasks import find_recurring, preview, read_history, read_recurring
from steady_queue.monitoring.states import JobState
from tests.shop.tasks import add
from tests.support.processes.scripts import run_script

if TYPE_CHECKING:
    from steady_queue.monitoring.recurring.tasks import RecurringRow

BERLIN = "Europe/Berlin"


def put(key: str, schedule: str = "0 12 * * *", **options: Any) -> None:
    schedule_recurring_task(add, key=key, schedule=schedule, args=[1], **options)


def change(database: str, key: str, **columns: Any) -> None:
    assert RecurringTask.objects.using(database).filter(key=key).update(**columns) == 1


def add_run(database: str, key: str, run_at: datetime, job_id: UUID | None = None) -> UUID:
    row = RecurringExecution(job_id=job_id or uuid4(), task_key=key, run_at=run_at, created_at=run_at)
    row.save(using=database, force_insert=True)
    return row.job_id


def found(key: str) -> RecurringRow:
    row = find_recurring(key)
    assert row is not None
    return row


# -- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("30 2 * * mon", "At 02:30, only on Monday"),
        ("*/5 9-17 * * 1-5", "Every 5 minutes, between 09:00 and 17:59, Monday through Friday"),
        ("0 0 l * *", "At 00:00, on the last day of the month"),
        ("0 0 13 * 5", "At 00:00, on day 13 of the month, or on Friday"),
        # The seconds are the last field.
        ("0 12 * * * 30", "At 12:00:30"),
        ("* * * * * */10", "Every 10 seconds"),
        # Not every five hours, and not every seventy minutes.
        ("0 */5 * * *", "At 00:00, 05:00, 10:00, 15:00 and 20:00"),
        ("*/70 * * * *", "Every hour"),
        ("@Daily", "At 00:00"),
        ("@every 1", "Every second"),
        ("@every 300", "Every 5 minutes"),
        ("@every 5400", "Every 1 hour and 30 minutes"),
        ("@every 90061.5", "Every 90061.5 seconds"),
        ("@every 90061", "Every 1 day, 1 hour, 1 minute and 1 second"),
    ],
)
def test_a_schedule_is_put_into_words(schedule: str, words: str) -> None:
    assert describe_schedule(schedule) == words


@pytest.mark.parametrize(
    "schedule", ["", "99 99 * * *", "<script>", "@every x", "@fortnightly", "0 0 31 2 *", "*" * 255]
)
def test_a_schedule_without_words_is_shown_as_it_is(schedule: str) -> None:
    assert describe_schedule(schedule) == schedule


def test_words_do_not_depend_on_the_locale_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    assert describe_schedule("1 15 * * sat") == "At 15:01, only on Saturday"


def test_what_finds_the_words_is_imported_only_for_them() -> None:
    printed = run_script(
        "import django; django.setup()\n"
        "import sys, steady_queue.monitoring.recurring.tasks, steady_queue.management\n"
        "print('cron_descriptor' in sys.modules)"
    )
    assert printed == "False\n"


# -- times ------------------------------------------------------------------------------------------------------------


def test_the_next_five_runs_follow_the_time_zone_when_the_clocks_change() -> None:
    words, runs = preview("30 2 * * *", BERLIN, datetime(2026, 3, 27, 12, tzinfo=UTC))

    assert words == "At 02:30"
    # On 29 March, 02:30 does not exist: the run is at the first moment after the gap.
    assert [f"{at:%d %H:%M %Z}" for at in runs] == [
        "28 02:30 CET",
        "29 03:00 CEST",
        "30 02:30 CEST",
        "31 02:30 CEST",
        "01 02:30 CEST",
    ]


def test_a_preview_says_what_is_wrong() -> None:
    with pytest.raises(ConfigurationError, match="never occurs"):
        preview("0 0 31 2 *", None)
    with pytest.raises(ConfigurationError, match="Europe/Berlin"):
        preview("0 0 * * *", "Europe/Berlim")


@pytest.mark.usually_on("sqlite")
def test_a_row_has_the_last_run_with_the_state_of_its_task_and_the_next_five(database: str) -> None:
    put("mine", "*/10 * * * *", time_zone="Asia/Kolkata", description="why")
    put("other")
    result = add.enqueue(1)
    at = timezone.now().replace(microsecond=0)
    add_run(database, "mine", at - timedelta(hours=1))
    add_run(database, "mine", at, UUID(result.id))
    add_run(database, "other", at)

    mine = found("mine")
    assert (mine.task_path, mine.words, mine.description) == ("tests.shop.tasks.add", "Every 10 minutes", "why")
    assert (mine.time_zone, mine.has_own_time_zone, mine.is_static, mine.is_enabled) == (
        "Asia/Kolkata",
        True,
        False,
        True,
    )
    assert mine.last_run is not None
    assert (mine.last_run.run_at, str(mine.last_run.job_id)) == (at, result.id)
    assert mine.last_run.state is JobState.READY
    assert len(mine.next_runs) == 5
    assert {after - before for before, after in zip(mine.next_runs, mine.next_runs[1:], strict=False)} == {
        timedelta(minutes=10)
    }
    assert mine.next_runs[0].tzname() == "IST"
    assert not mine.is_late
    # The task of this run was never stored, or is deleted.
    other = found("other")
    assert other.last_run is not None
    assert other.last_run.state is None
    assert (other.time_zone, other.has_own_time_zone) == ("UTC", False)


@pytest.mark.usually_on("sqlite")
def test_a_disabled_task_has_no_next_run_and_says_why(database: str) -> None:
    put("broken")
    change(database, "broken", enabled=False, disabled_reason="UnknownTaskError: gone")
    row = found("broken")
    assert (row.is_enabled, row.disabled_reason, row.next_runs, row.is_late) == (
        False,
        "UnknownTaskError: gone",
        (),
        False,
    )


@pytest.mark.usually_on("sqlite")
def test_a_row_that_was_edited_by_hand_says_what_is_wrong(database: str) -> None:
    put("bad schedule")
    put("bad zone")
    change(database, "bad schedule", schedule="at noon", updated_at=datetime(2020, 1, 1, tzinfo=UTC))
    change(database, "bad zone", time_zone="Mars/Olympus")

    rows = {row.key: row for row in read_recurring().rows}
    assert "has 2 fields" in str(rows["bad schedule"].problem)
    assert rows["bad schedule"].words == "at noon"
    assert "no time zone 'Mars/Olympus'" in str(rows["bad zone"].problem)
    assert find_late_schedules(timezone.now()) == []
    assert read_calendar().runs == 0


def test_a_task_is_late_when_a_run_is_missing_for_more_than_a_minute(database: str) -> None:
    at = timezone.now()
    # An interval since 1970 whose first multiple was an hour ago.
    due = at.replace(microsecond=0) - timedelta(hours=1)
    keys = ("last", "none", "recorded", "off", "minutes")
    for key in keys:
        put(key, f"@every {int(due.timestamp())}", catch_up="last" if key == "last" else "none")
    put("minutes", "@every 60", replace=True)
    for key in keys:
        change(database, key, updated_at=at - timedelta(hours=3))
    minutes = at.replace(second=0, microsecond=0) - timedelta(minutes=170)
    add_run(database, "minutes", minutes - timedelta(minutes=1))
    put("yearly", "@yearly")
    change(database, "yearly", updated_at=datetime(at.year - 1, 6, 1, tzinfo=UTC))
    put("changed", "@every 1")
    change(database, "changed", updated_at=at - timedelta(seconds=30))
    add_run(database, "recorded", due)
    disable_recurring_task("off")

    late = find_late_schedules(at)
    assert [schedule.key for schedule in late] == ["minutes", "last", "none"]
    assert [schedule.due_at for schedule in late] == [minutes, due, due]
    assert {key for key in keys if found(key).is_late} == {"minutes", "last", "none"}
    assert (found("last").missed_at, found("recorded").missed_at) == (due, None)
    # A missed run that is never repeated is reported for a day.
    yearly = found("yearly")
    assert yearly.missed_at == datetime(at.year, 1, 1, tzinfo=UTC)
    assert yearly.is_late == (at - yearly.missed_at < timedelta(days=1))


# -- pages ------------------------------------------------------------------------------------------------------------


def test_recurring_tasks_are_read_in_pages_by_their_keys(database: str) -> None:
    keys = ["B", "a", "a/b?c=d&e", "b' OR 1=1", "<script>", "\u202edlrow", "z" * 255]
    for key in keys:
        put(key)
    with CaptureQueriesContext(
        connections[database],
    ) as queries:
        page = read_recurring(size=4)
    assert len(queries) <= 2
    rest = read_recurring(page.next_key or "", size=4)

    assert [row.key for row in (*page.rows, *rest.rows)] == sorted(keys, key=lambda key: key.encode())
    assert rest.next_key is None
    assert all(found(key).key == key for key in keys)
    assert find_recurring("A") is None
    assert find_recurring("nul \x00") is find_recurring("z" * 256) is None
    assert len(read_recurring("nul \x00").rows) == len(keys)
    assert read_history("nul \x00").rows == ()


def test_the_history_has_the_newest_run_first_with_the_state_of_each_task(database: str) -> None:
    put("key")
    put("other")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    stored = UUID(add.enqueue(1).id)
    ids = [add_run(database, "key", at + timedelta(hours=hour), stored if hour == 6 else None) for hour in range(7)]
    add_run(database, "other", at)
    with CaptureQueriesContext(connections[database]) as queries:
        page = read_history("key", size=3)
    assert len(queries) == 2
    rest = read_history("key", page.next_before, size=4)

    assert [run.job_id for run in (*page.rows, *rest.rows)] == ids[::-1]
    assert [run.state for run in page.rows] == [JobState.READY, None, None]
    assert rest.next_before is None


def test_the_states_of_tasks_are_read_by_their_ids(database: str) -> None:
    ready = UUID(add.enqueue(1).id)
    later = UUID(add.using(run_after=timedelta(hours=1)).enqueue(1).id)
    finished = UUID(add.enqueue(2).id)
    ReadyExecution.objects.using(database).filter(job_id=finished).delete()
    Job.objects.using(database).filter(id=finished).update(finished_at=timezone.now())

    assert read_states([ready, later, finished, uuid4()]) == {
        ready: JobState.READY,
        later: JobState.SCHEDULED,
        finished: JobState.FINISHED,
    }
    assert read_states([]) == {}


# -- the coming day ---------------------------------------------------------------------------------------------------


@pytest.mark.usually_on("sqlite")
def test_the_calendar_has_the_runs_of_each_hour_of_the_coming_day(database: str) -> None:
    put("often", "*/15 * * * *")
    put("noon")
    put("noon too")
    put("yearly", "0 0 1 6 *")
    put("off", "* * * * *")
    disable_recurring_task("off")

    calendar = read_calendar(datetime(2026, 1, 1, 10, 20, tzinfo=UTC))
    assert [hour.starts_at.hour for hour in calendar.hours] == [*range(10, 24), *range(10)]
    assert [hour.runs for hour in calendar.hours] == [2, 4, 6] + [4] * 21
    assert calendar.hours[2].tasks == (("often", 4), ("noon", 1), ("noon too", 1))
    assert (calendar.runs, calendar.cut, calendar.has_more_tasks) == (2 + 23 * 4 + 2, (), False)


@pytest.mark.usually_on("sqlite")
def test_the_calendar_computes_a_bounded_number_of_runs_and_says_what_is_cut(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("a", "b"):
        put(key, "@every 1")
    put("c", "@every 2")
    put("d", "@hourly")
    at = datetime(2026, 1, 1, 10, tzinfo=UTC)
    calendar = read_calendar(at)
    assert calendar.cut == ("a", "b", "c")
    assert calendar.runs == 3 * recurring_calendar.MAX_RUNS_OF_SCHEDULE + 23

    monkeypatch.setattr(recurring_calendar, "MAX_RUNS", 2_000)
    calendar = read_calendar(at)
    assert calendar.cut == ("a", "b", "c", "d")
    assert calendar.runs == 2 * 1_500 + 500
    monkeypatch.setattr(recurring_calendar, "MAX_TASKS", 1)
    assert read_calendar(at).has_more_tasks


@pytest.mark.usually_on("sqlite")
def test_the_hours_of_the_calendar_are_those_of_the_current_time_zone(database: str) -> None:
    put("daily", "30 2 * * *", time_zone=BERLIN)
    with timezone.override("Asia/Kolkata"):  # its hours begin at half past those of UTC
        calendar = read_calendar(datetime(2026, 1, 1, 10, 20, tzinfo=UTC))
    (hour,) = (hour for hour in calendar.hours if hour.runs)
    assert f"{hour.starts_at:%d %H:%M %Z}" == "02 07:00 IST"
