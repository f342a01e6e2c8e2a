"""Limited tasks as enqueuers see them: their keys, their slots, what is refused, and limits that change in the code."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

import steady_queue
from steady_queue import actions, enqueue_all
from steady_queue.concurrency import limits_concurrency
from steady_queue.errors import ArgumentError, ConcurrencyKeyError, ConfigurationError
from steady_queue.jobs.compat import TaskResultDoesNotExist, TaskResultStatus
from steady_queue.jobs.registry import LimitLookup, limits_in_force, registry
from tests.shop import tasks
from tests.shop.models import Customer
from tests.support.databases.tables import count, counts, query, row
from tests.support.threads import WAIT_TIMEOUT_SECONDS, while_in_thread

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult
    from tests.support.enqueue import Put

pytestmark = pytest.mark.contract


def stored(database: str, result: TaskResult[Any]) -> dict[str, Any]:
    found = row(database, "job", result.id, column="id")
    assert found is not None
    return found


def test_a_limited_job_is_ready_while_its_key_is_free_and_blocked_then(database: str, put: Put) -> None:
    first, second, other = put(tasks.charge, "ada"), put(tasks.charge, "ada"), put(tasks.charge, "alan")
    assert counts(database) == {"ready": 2, "blocked": 1}
    assert row(database, "blockedexecution", second.id)
    assert stored(database, first)["concurrency_key"] == f"{tasks.charge.module_path}/ada"
    for result in (first, second, other):
        assert result.status == TaskResultStatus.READY
        assert tasks.charge.get_result(result.id).status == TaskResultStatus.READY


def test_a_limited_job_of_the_future_takes_no_slot(database: str, put: Put) -> None:
    put(tasks.charge.using(run_after=timedelta(hours=1)), "ada")
    assert counts(database) == {"scheduled": 1}
    assert count(database, "semaphore") == 0


def test_the_group_and_the_limit_are_stored_with_the_job(database: str, put: Put) -> None:
    job = stored(database, put(tasks.export, "a"))
    assert (job["concurrency_key"], job["concurrency_limit"]) == ("exports/export", 2)


def test_a_job_that_discards_on_conflict_is_not_stored_with_another_of_its_key(database: str, put: Put) -> None:
    put(tasks.refresh, 1)
    discarded = put(tasks.refresh, 1)
    assert counts(database) == {"ready": 1}
    assert count(database, "job") == 1
    with pytest.raises(TaskResultDoesNotExist):
        tasks.refresh.get_result(discarded.id)


def test_a_model_instance_as_key_identifies_its_row(database: str, put: Put) -> None:
    ada = Customer.objects.using(database).create(name="Ada")
    limited = limits_concurrency(key=lambda customer: customer)(tasks.anything)
    assert stored(database, put(limited, ada))["concurrency_key"] == (
        f"{tasks.anything.module_path}/shop.Customer/{ada.pk}"
    )


def test_a_key_that_raises_stores_nothing_and_is_not_hidden(database: str, put: Put) -> None:
    message = r"the concurrency key of tests\.shop\.tasks\.invoice could not be computed: ZeroDivisionError: "
    with pytest.raises(ConcurrencyKeyError, match=message) as caught:
        put(tasks.invoice, 0)
    assert type(caught.value.__cause__) is ZeroDivisionError
    assert caught.value.stored == "no"
    assert count(database, "job") == 0


def test_a_key_that_does_not_take_the_arguments_stores_nothing(database: str, put: Put) -> None:
    limited = limits_concurrency(key=lambda customer: customer)(tasks.anything)
    with pytest.raises(ConcurrencyKeyError, match="could not be computed: TypeError"):
        put(limited, 1, 2)
    assert count(database, "job") == 0


async def never() -> None:
    pass


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (lambda: None, "is None"),
        (lambda: Customer(name="Ada"), "shop.Customer that has not been saved"),
        (lambda: Customer(pk=5, name="Ada"), "shop.Customer that has not been saved"),
        (lambda: never(), "would have to be awaited"),
    ],
    ids=["None", "unsaved", "unsaved with a key", "coroutine"],
)
def test_a_key_that_identifies_nothing_is_refused(database: str, put: Put, key: Any, reason: str) -> None:
    with pytest.raises(ConcurrencyKeyError, match=f"concurrency key of tests.shop.tasks.anything .*{reason}"):
        put(limits_concurrency(key=key)(tasks.anything))
    assert count(database, "job") == 0


def test_tasks_that_share_a_group_exclude_each_other_and_others_do_not(database: str, put: Put) -> None:
    ada = Customer.objects.using(database).create(name="Ada")
    together = limits_concurrency(key=lambda customer: customer, group="customers")
    first, second = together(tasks.anything), together(tasks.add)
    put(first, ada)
    put(second, ada)
    assert counts(database) == {"ready": 1, "blocked": 1}
    keys = {row[0] for row in query(database, "SELECT concurrency_key FROM steady_queue_job")}
    assert keys == {f"customers/shop.Customer/{ada.pk}"}
    put(limits_concurrency(key=lambda customer: customer)(tasks.anything), ada)
    put(together(tasks.add), 5)
    assert counts(database) == {"ready": 3, "blocked": 1}


def test_a_group_with_a_slash_meets_no_other_group(database: str, put: Put) -> None:
    for task, group, value in (
        (tasks.anything, "customers", "vip/5"),
        (tasks.add, "customers/vip", 5),
        (tasks.add, "customers%2Fvip", 5),
    ):
        put(limits_concurrency(key=lambda value: value, group=group)(task), value)
    assert counts(database) == {"ready": 3}
    keys = query(database, "SELECT concurrency_key FROM steady_queue_job ORDER BY id")
    assert [key for (key,) in keys] == ["customers/vip/5", "customers%2Fvip/5", "customers%252Fvip/5"]


def test_keys_that_differ_in_one_byte_are_different(database: str, put: Put) -> None:
    names = ["ada", "Ada", "ada ", "ad\u00e1", "ada\u0301", "\U0001f600", "\U0001f601", "stra\u00dfe", "strasse"]
    for name in names:
        put(tasks.charge, name)
    assert counts(database) == {"ready": len(names)}
    put(tasks.charge, "\U0001f600")
    assert counts(database) == {"ready": len(names), "blocked": 1}


def test_the_time_limit_of_a_slot_is_stored_with_the_job(
    database: str, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after(**options: Any) -> Any:
        return stored(database, put(limits_concurrency(key="k", to=9, **options)(tasks.anything)))["overrun_after"]

    minute = timedelta(minutes=1)
    assert after() is None
    assert after(duration=minute) is None
    assert after(duration=minute, on_overrun="release") == 60_000_000
    assert after(on_overrun="release") == 180_000_000
    monkeypatch.setattr(steady_queue, "default_concurrency_control_period", timedelta(milliseconds=1))
    assert after(on_overrun="release") == 1_000
    monkeypatch.setattr(steady_queue, "default_concurrency_control_period", 5)
    with pytest.raises(ConfigurationError, match="default_concurrency_control_period must be a timedelta"):
        after(on_overrun="release")


@pytest.mark.parametrize(("account", "reason"), [("x" * 600, "characters"), ("\x00", "NUL"), ("\ud800", "surrogate")])
def test_a_key_that_cannot_be_stored_is_refused(database: str, put: Put, account: str, reason: str) -> None:
    with pytest.raises(ArgumentError, match=f"concurrency key.*{reason}"):
        put(tasks.charge, account)
    assert count(database, "job") == 0


# -- transactions -----------------------------------------------------------------------------------------------------


def test_a_refused_key_leaves_the_transaction_usable(database: str) -> None:
    with transaction.atomic(using=database):
        with pytest.raises(ConcurrencyKeyError):
            tasks.invoice.enqueue(0)
        tasks.add.enqueue(1)
    assert counts(database) == {"ready": 1}


def test_a_job_that_finds_its_key_full_leaves_the_transaction_usable(database: str) -> None:
    tasks.charge.enqueue("ada")
    tasks.refresh.enqueue(1)
    with transaction.atomic(using=database):
        tasks.charge.enqueue("ada")
        tasks.refresh.enqueue(1)
        enqueue_all([tasks.charge.bind("ada"), tasks.refresh.bind(1)])
        Customer.objects.using(database).create(name="Ada")
    assert Customer.objects.using(database).filter(name="Ada").exists()
    assert counts(database) == {"ready": 2, "blocked": 2}


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.parametrize("how", ["one", "bulk"])
def test_two_enqueuers_with_the_same_keys_complete_while_the_transactions_of_both_are_open(
    database: str, how: str
) -> None:
    """Each enqueues only after the other has: neither could, if one of them had to wait for the other's end."""
    first_has, second_has = threading.Event(), threading.Event()

    def put() -> None:
        if how == "one":
            tasks.charge.enqueue("ada")
            tasks.refresh.enqueue(1)
        else:
            enqueue_all([task.bind(n) for task in (tasks.charge, tasks.refresh) for n in (1, 2, 3)])

    def first() -> None:
        with transaction.atomic(using=database):
            put()
            first_has.set()
            assert second_has.wait(WAIT_TIMEOUT_SECONDS)
            put()

    with while_in_thread(first):
        assert first_has.wait(WAIT_TIMEOUT_SECONDS)
        with transaction.atomic(using=database):
            put()
            second_has.set()
            put()
    keys = 2 if how == "one" else 6
    of_charge = 4 * keys // 2
    assert counts(database) == {"ready": keys, "blocked": of_charge - keys // 2}


# -- limits that change in the code -----------------------------------------------------------------------------------


@pytest.fixture
def in_code(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Change the limit of a task in the code, without a change of the stored jobs."""

    def change(task: Any, to: int) -> None:
        changed = replace(task, concurrency=replace(task.concurrency, to=to))
        monkeypatch.setitem(registry._known, task.module_path, changed)

    return change


def test_the_limit_in_force_is_that_of_the_code_if_the_code_knows_one(in_code: Any) -> None:
    assert limits_in_force.get(tasks.export.module_path, 7) == 2
    in_code(tasks.export, 4)
    assert limits_in_force.get(tasks.export.module_path, 7) == 4
    assert limits_in_force.get(tasks.add.module_path, 7) == 7
    assert limits_in_force.get("gone.from.the.code", 7) == 7
    assert limits_in_force.get("tests.shop.gone.task", 7) == 7


def test_a_module_that_cannot_be_imported_is_not_tried_for_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    limits: LimitLookup[int] = LimitLookup(attrgetter("to"))

    def fails(path: str) -> Any:
        tried.append(path)
        raise RuntimeError("the module is broken")

    monkeypatch.setattr(registry, "_find", fails)
    assert [limits.get("tests.shop.broken.task", 7) for _ in range(5)] == [7] * 5
    assert tried == ["tests.shop.broken.task"]
    monkeypatch.setattr("steady_queue.jobs.registry.time.monotonic", lambda: float("inf"))
    assert limits.get("tests.shop.broken.task", 7) == 7
    assert len(tried) == 2


def test_a_raised_limit_is_used_by_the_next_enqueue(database: str, put: Put, in_code: Any) -> None:
    results = [put(tasks.charge, "ada") for _ in range(3)]
    in_code(tasks.charge, 3)
    results.append(put(tasks.charge, "ada"))
    assert counts(database) == {"ready": 3, "blocked": 1}
    actions.discard_many(results)


def test_a_lowered_limit_holds_for_the_next_enqueue(database: str, put: Put, in_code: Any) -> None:
    put(tasks.export, "a")
    in_code(tasks.export, 1)
    put(tasks.export, "b")
    assert counts(database) == {"ready": 1, "blocked": 1}


def test_a_raised_limit_is_used_after_a_commit(database: str, in_code: Any) -> None:
    in_code(tasks.charge, 2)
    with transaction.atomic(using=database):
        results = [tasks.charge.enqueue("ada") for _ in range(3)]
    assert counts(database) == {"ready": 2, "blocked": 1}
    actions.discard_many(results)


def test_a_raised_limit_is_used_by_actions(database: str, in_code: Any) -> None:
    first, *others = [tasks.charge.enqueue("ada") for _ in range(7)]
    in_code(tasks.charge, 2)
    assert actions.discard(first)
    assert counts(database) == {"ready": 2, "blocked": 4}
    in_code(tasks.charge, 3)
    assert actions.discard_where("ready", task=tasks.charge) == 2
    assert counts(database) == {"ready": 3, "blocked": 1}
    later = tasks.charge.using(run_after=timedelta(hours=1)).enqueue("ada")
    in_code(tasks.charge, 9)
    assert actions.run_now(later)
    assert counts(database) == {"ready": 5}
    actions.discard_many([*others, later])


def test_jobs_of_a_task_that_is_not_in_the_code_still_move(database: str) -> None:
    first, second = tasks.charge.enqueue("ada"), tasks.charge.enqueue("ada")
    query(database, "UPDATE steady_queue_job SET task_path = 'gone.from.the.code'")
    assert actions.discard(first.id)
    assert row(database, "readyexecution", second.id)
