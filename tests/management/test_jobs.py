"""`manage.py steady_queue jobs`: lists tasks, shows one, and changes those that the command line selects."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.core.management import CommandError

from steady_queue.monitoring.states import JobState
from steady_queue.store.job import Until
from tests.management.shell import Terminal, shell
from tests.support.databases.tables import count, query
from tests.support.store.jobs import fail_jobs, job, later, unique
from tests.support.store.states import make_all_states
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob


def test_tasks_are_listed_by_state_and_filters(database: str) -> None:
    states = make_all_states(SyncStore(database))
    for state, one in states.items():
        ran = shell("jobs", "--state", str(state), "--json")
        found = ran.json
        assert ran.status == 0
        assert str(one.id) in [row["id"] for row in found["jobs"]]
        assert (found["next_cursor"], found["is_complete"]) == (None, True)
        assert str(one.id) in shell("jobs", "--state", str(state)).out
    everything = shell("jobs", "--json", "--limit", "1000").json["jobs"]
    assert {str(one.id) for one in states.values()} <= {row["id"] for row in everything}
    failed = states[JobState.FAILED]
    filters = ["--queue", failed.queue_name, "--task", failed.task_path, "--since", "1h", "--state", "failed"]
    assert str(failed.id) in shell("jobs", *filters).out
    assert shell("jobs", *filters, "--error", "no.such.Error").err == "no task matches\n"
    assert shell("jobs", "--state", "failed", "--before", "1h").err == "no task matches\n"


@pytest.mark.usually_on("sqlite")
def test_a_list_is_continued_with_its_cursor(database: str) -> None:
    SyncStore(database).enqueue(*[job() for _ in range(5)])
    first = shell("jobs", "--limit", "3", "--json").json
    second = shell("jobs", "--limit", "3", "--after", first["next_cursor"], "--json").json
    ids = [row["id"] for row in (*first["jobs"], *second["jobs"])]
    assert (len(set(ids)), second["next_cursor"]) == (5, None)
    assert f"--after {first['next_cursor']}" in shell("jobs", "--limit", "3").err


@pytest.mark.usually_on("sqlite")
def test_one_task_is_shown_with_its_life_and_why_it_waits(database: str) -> None:
    store = SyncStore(database)
    failed, waiting = job(), job(scheduled_at=later())
    fail_jobs(store, failed, message="it \x1b[31mbroke\u202e")
    store.enqueue(waiting)
    text = shell("jobs", str(failed.id)).out
    assert f"id           {failed.id}" in text
    assert "Attempt 1 failed" in text
    assert "Possible: retry, edit, discard" in text
    # Text of the queue cannot control the terminal.
    assert "it \\x1b[31mbroke\\u202e" in text
    assert "\x1b" not in shell("jobs").out
    detail = shell("jobs", str(waiting.id), "--json").json["jobs"][0]
    assert (detail["state"], detail["actions"]) == ("scheduled", ["run_now", "cancel", "discard"])
    assert [entry["kind"] for entry in detail["timeline"]] == ["enqueued", "scheduled"]
    assert detail["waiting"]
    both = shell("jobs", str(failed.id), str(waiting.id), "--json").json["jobs"]
    assert [one["id"] for one in both] == [str(failed.id), str(waiting.id)]
    digits = str(failed.id)[:-4]
    assert str(failed.id) in shell("jobs", digits).out


@pytest.mark.usually_on("sqlite")
def test_unknown_ids_are_named_and_the_status_is_1(database: str) -> None:
    store = SyncStore(database)
    known, unknown = job(), str(uuid4())
    store.enqueue(known)
    ran = shell("jobs", str(known.id), unknown)
    assert (ran.status, ran.err) == (1, f"{unknown}: there is no task with this id\n")
    assert str(known.id) in ran.out
    assert shell("jobs", "ffff").status == 1
    ran = shell("jobs", unknown, "no id", "--retry", "--yes")
    assert ran.status == 1
    assert f"{unknown}: no longer exists" in ran.err
    assert "no id: is not the id of a task" in ran.err


def test_each_change_is_applied_to_ids_and_says_what_it_refuses(database: str) -> None:
    store = SyncStore(database)
    failed, holder_of_key, ready, running = job(), unique(until=Until.FINISHED), job(), job()
    fail_jobs(store, failed, holder_of_key)
    store.claimed(running)
    store.enqueue(ready, unique(until=Until.FINISHED))
    ids = [str(one.id) for one in (failed, holder_of_key, ready)]
    found = shell("jobs", *ids, "--retry", "--yes", "--json")
    assert found.status == 1
    assert {name: found.json[name] for name in ("done", "stale", "refused")} == {
        "done": 1,
        "stale": 1,
        "refused": 1,
    }
    assert [one["id"] for one in found.json["unchanged"]] == ids[1:]
    ran = shell("jobs", str(running.id), str(ready.id), "--cancel", "--reason", "a mistake", "--by", "Ada", "--yes")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "1 task cancelled; the processes of 1 running task were asked to stop them\n"
    assert query(database, "SELECT requested_by, reason FROM steady_queue_cancellation") == [("Ada", "a mistake")]
    assert shell("jobs", str(ready.id), "--discard", "--yes").out == "1 task discarded\n"
    scheduled = job(scheduled_at=later())
    store.enqueue(scheduled)
    assert shell("jobs", str(scheduled.id), "--run-now", "--yes").out == "1 task made ready\n"


def failed_jobs(store: SyncStore, number: int, queue: str) -> list[NewJob]:
    jobs = [job(queue_name=queue) for _ in range(number)]
    fail_jobs(store, *jobs)
    return jobs


def test_all_tasks_that_match_are_changed_after_a_question(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SyncStore(database)
    failed_jobs(store, 3, "mail")
    failed_jobs(store, 2, "default")
    words = ["jobs", "--state", "failed", "--queue", "mail", "--retry"]
    with pytest.raises(CommandError, match="no terminal to ask 'Retry 3 tasks, state failed, queue mail"):
        monkeypatch.setattr("sys.stdin", Terminal())
        monkeypatch.setattr("sys.stdin.isatty", lambda: False)
        shell(*words)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    with pytest.raises(CommandError, match="nothing was changed"):
        shell(*words)
    assert count(database, "failedexecution") == 5
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    ran = shell(*words)
    assert (ran.status, ran.out) == (0, "3 tasks retried\n")
    assert count(database, "failedexecution") == 2
    assert shell(*words).out == "0 tasks retried\n"


@pytest.mark.usually_on("sqlite")
def test_many_tasks_are_changed_in_batches(database: str) -> None:
    SyncStore(database).enqueue(*[job(queue_name="mail") for _ in range(1100)])
    assert shell("jobs", "--state", "ready", "--queue", "mail", "--discard", "--yes").out == "1,100 tasks discarded\n"
    assert count(database, "job") == 0


@pytest.mark.usually_on("sqlite")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--retry"], "--retry needs ids, or --state"),
        (["--retry", "--state", "finished"], "--retry is possible for tasks that are failed"),
        (["--retry", "--discard", "--state", "failed"], "only one of --retry, --discard is possible"),
        (["--state", "asleep"], "there is no state 'asleep'"),
        (["--since", "yesterday"], "since is a date"),
        (["--limit", "0"], "--limit must be an integer of at least 1"),
        (["--reason", "why"], "--reason belongs to --cancel"),
        ([str(uuid4()), "--queue", "mail"], "either ids, or --queue"),
        ([""], '"" is no id of a task'),
        (["--state", "ready", "--queue", "", "--discard", "--yes"], "--queue has no value"),
        (["--state", "failed", "--text", " ", "--retry", "--yes"], "--text has no value"),
        (["--before", ""], "--before has no value"),
        ([" ", str(uuid4())], '"" is no id of a task'),
        (["", "--discard", "--yes"], '"" is no id of a task'),
        (["not hexadecimal"], "an id has at most 32 hexadecimal digits"),
        (["--retry", "--state", "failed", "--limit", "10"], "--limit belongs to lists of tasks, .* on --retry"),
        (["--run-now", "--state", "late", "--after", "x"], "--after belongs to lists of tasks, .* on --run-now"),
        ([str(uuid4()), "--limit", "10"], "--limit belongs to lists of tasks, .* on ids"),
        ([str(uuid4()), "--discard", "--after", "x"], "--after belongs to lists of tasks, .* on --discard"),
        (["--after", "nonsense"], "--after must be the cursor of a list with the same filters, not 'nonsense'"),
        (["--after", ""], "--after must be the cursor"),
        (["--status", "ready"], "--status is an option of 'cancel'"),
        (["--pause"], "--pause is an option of 'queues'"),
        (["--watch"], "--watch is an option of 'status'"),
    ],
)
def test_what_makes_no_sense_is_refused(database: str, words: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        shell("jobs", *words)
