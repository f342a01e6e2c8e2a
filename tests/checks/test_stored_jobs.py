"""`steady_queue check --stored`: which stored jobs the code at hand could not run."""

from __future__ import annotations

import json
from collections import Counter
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

import steady_queue
from steady_queue import arguments
from steady_queue.arguments import dumps
from steady_queue.checks import stored_jobs
from steady_queue.checks.stored_jobs import CodeAtHand, count_stored, examine_stored
from tests.shop.models import Customer
from tests.shop.replayed import greets
from tests.shop.tasks import add, anything, charge, send_mail
from tests.support.databases.tables import query
from tests.support.store.jobs import fail_jobs, job, later
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob

OURS = "steady_queue.backend.SteadyQueueBackend"
PATH = add.module_path


def stored(text: str = dumps([1], {}), **options: Any) -> NewJob:
    """A job of the task `add`, with other arguments or options."""
    return job(**{"task_path": PATH, "arguments": text, **options})


def check(*options: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("steady_queue", "check", "--stored", *options, stdout=out, stderr=StringIO())
    except SystemExit as exit_:
        return int(str(exit_.code)), out.getvalue()
    return 0, out.getvalue()


def test_jobs_that_the_code_can_run_pass(database: str) -> None:
    customer = Customer.objects.using(database).create(name="Ada")
    send_mail.enqueue("ada@example.com")
    greets.enqueue(customer, Customer.Tier.GOLD)
    anything.enqueue({customer: [customer]}, by={Customer.Tier.BASIC})
    charge.enqueue(1)
    charge.enqueue(1)
    add.using(run_after=later()).enqueue(1, b=2)
    customer.delete()  # no fault of the code
    report = examine_stored()
    assert report.checked == Counter(ready=4, blocked=1, scheduled=1)
    assert report.findings == {}
    assert check() == (0, "6 stored tasks checked: none would fail\n")


def test_each_way_to_fail_is_counted_once_for_each_task(database: str) -> None:
    enum = json.loads(dumps([Customer.Tier.GOLD], {}))
    gone = json.dumps(enum).replace("GOLD", "PLATINUM")
    model = dumps([1, {"$": 1}], {}).replace('["$",1]', '["$",{"$":"model","v":"shop.gone","pk":1,"db":"default"}]')
    jobs = [
        stored(dumps([1], {"c": 2})),
        stored(dumps([1, 2], {"c": 3})),
        stored(dumps([], {}), scheduled_at=later()),
        stored(task_path="tests.shop.tasks.gone"),
        stored(task_path="tests.shop.tasks.gone"),
        stored(task_path="nowhere.tasks.gone"),
        stored(gone),
        stored(model),
        stored("nonsense"),
        stored(backend="gone"),
        stored(queue_name="gone"),
    ]
    SyncStore(database).enqueue(*jobs)
    report = examine_stored()
    assert report.checked == Counter(ready=10, scheduled=1)
    assert report.failing == 10
    found = {(one.task_path, one.problem.reason[:60]): one.count for one in report.sorted_findings()}
    assert sorted(found.values()) == [1, 1, 1, 1, 1, 1, 1, 2, 2]
    status, out = check()
    assert status == 1
    for words in (
        f"error: {PATH}: 2 tasks would fail: {PATH}() has no argument 'c'",
        f"needs the argument 'a'. Its signature is (a, b=0) (for example {jobs[2].id})",
        "error: tests.shop.tasks.gone: 2 tasks would fail: 'tests.shop.tasks.gone' is not a task",
        "'nowhere.tasks.gone' is not a task of an installed app",
        "has no member 'PLATINUM'",
        "LookupError: App 'shop' doesn't have a 'gone' model",
        "TASKS in settings.py has no entry 'gone'",
        f"warning: {PATH}: 1 task: the queue 'gone' is not in TASKS['default']['QUEUES']",
        "11 stored tasks checked: 10 would fail",
    ):
        assert words in out, words


def test_running_jobs_count_and_failed_ones_on_request(database: str) -> None:
    store = SyncStore(database)
    fail_jobs(store, stored(task_path="tests.shop.tasks.gone"))
    store.claimed(stored(task_path="tests.shop.tasks.gone"))
    assert examine_stored().checked == Counter(claimed=1)
    assert (count_stored(), count_stored(failed=True)) == (1, 2)
    status, out = check("--failed", "--json")
    found = json.loads(out)
    assert (status, found["checked"], found["failing"]) == (1, {"failed": 1, "claimed": 1}, 2)
    (finding,) = found["findings"]
    assert (finding["task"], finding["level"], finding["count"]) == ("tests.shop.tasks.gone", "error", 2)
    query(database, "DELETE FROM steady_queue_claimedexecution")
    query(database, "DELETE FROM steady_queue_job WHERE attempts = 0")


def test_recurring_tasks_that_were_made_at_run_time_are_checked(database: str) -> None:
    steady_queue.schedule_recurring_task(add, key="good", schedule="@daily", args=[1])
    steady_queue.schedule_recurring_task(add, key="bad", schedule="@daily", args=[1])
    steady_queue.schedule_recurring_task(add, key="off", schedule="@daily", args=[1])
    query(database, "UPDATE steady_queue_recurringtask SET arguments = '[1,[1,2,3],{}]' WHERE task_key <> 'good'")
    steady_queue.disable_recurring_task("off")
    status, out = check()
    assert status == 1
    assert "takes 2 positional arguments, but 3 were passed" in out
    assert "(for example bad)" in out
    assert "0 stored tasks and 2 recurring tasks checked: 1 would fail" in out


def test_all_jobs_are_read_in_parts_of_limited_size(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_jobs, "LISTED_ROWS", 3)
    monkeypatch.setattr(stored_jobs, "READ_CHARACTERS", 50)
    SyncStore(database).enqueue(*(stored(dumps([1], {"c" * (number % 30 + 1): 1})) for number in range(20)))
    monkeypatch.setattr(stored_jobs, "MAX_FINDINGS", 5)
    parts: list[int] = []
    report = examine_stored(progress=parts.append)
    assert (report.failing, sum(parts), max(parts)) == (20, 20, 3)
    assert parts.count(1) > 5
    assert len(report.findings) == 6
    assert report.findings[stored_jobs.OTHER, stored_jobs.Problem("more problems than can be listed")].count == 15


def test_the_memory_for_tasks_and_queues_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_jobs, "MAX_FINDINGS", 2)
    code = CodeAtHand()
    for name in ("a", "b", "c", "d"):
        assert len(list(code.find_problems(f"tests.shop.tasks.{name}", "[1,[],{}]", "default", name))) == 1
        assert [one.is_warning for one in code.find_problems(PATH, "[1,[1],{}]", "default", name)] == [True]
    assert len(code._tasks) <= 2
    assert len(code._places) <= 2


def test_a_key_that_its_model_does_not_accept_and_an_unknown_database_are_failures() -> None:
    def text(**changes: Any) -> str:
        node = {"$": "model", "v": "shop.customer", "pk": 1, "db": "default", **changes}
        return json.dumps([1, [node], {}])

    assert arguments.resolve(text()) == (["shop.customer:1"], {})
    for changes, says in [
        ({"pk": "x"}, "'x' is no key of shop.customer"),
        ({"db": "gone"}, "DATABASES has no entry 'gone'"),
        ({"v": "shop.gone"}, "LookupError"),
    ]:
        with pytest.raises(arguments.DeserializationError, match=says):
            arguments.resolve(text(**changes))


def test_a_backend_of_another_package_is_no_problem(database: str) -> None:
    SyncStore(database).enqueue(stored())
    with override_settings(TASKS={"default": {"BACKEND": OURS}, "more": {"BACKEND": "no.such.Backend"}}):
        assert examine_stored().failing == 0


def test_a_database_without_tables_is_named(unmigrated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "database", unmigrated)
    with pytest.raises(CommandError, match="migrate"):
        check()
