"""Actions on tasks: confirmation, permissions, batches, outcomes, and the admin's log."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from steady_queue.dashboard.jobs import actions as job_actions
from steady_queue.dashboard.jobs.changes import CHANGES
from steady_queue.models import Job
from steady_queue.models.endings import Cancellation
from steady_queue.monitoring.jobs import pages as job_pages
from steady_queue.store.operations.actions.job_actions import retry, run_now
from steady_queue.store.outcome import Finished
from tests.support.databases.tables import counts
from tests.support.store.jobs import fail_jobs, failed, job, later, limited, retried
from tests.support.store.states import old_job
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from django.http import HttpResponse

    from steady_queue.store.job import NewJob

LIST = "/admin/steady_queue/job/"
ACTION = f"{LIST}action/"
PERMISSIONS = {change.name: change.permission for change in CHANGES.values()}

pytestmark = pytest.mark.usually_on("sqlite")


def post(client: Client, do: str, ids: list[UUID] | None = None, **data: Any) -> HttpResponse:
    """Ask for an action, with its confirmation, as of now, unless `confirmed` is None."""
    asked_at = datetime.now(UTC).isoformat()
    fields = {"do": do, "ids": [str(id_) for id_ in ids or ()], "confirmed": "1", "as_of": asked_at, **data}
    return client.post(ACTION, {name: value for name, value in fields.items() if value is not None})  # type: ignore[return-value]


def log_entries() -> list[tuple[str, str, str]]:
    from django.contrib.admin.models import LogEntry

    entries = LogEntry.objects.order_by("id")
    return [(entry.user.get_username(), entry.object_id or "", entry.change_message) for entry in entries]


def text_of(response: Any) -> str:
    return str(response.content.decode())


def messages_of(response: Any) -> list[str]:
    from django.contrib.messages import get_messages

    return [str(message) for message in get_messages(response.wsgi_request)]


def failed_jobs(store: SyncStore, count: int, **options: Any) -> list[NewJob]:
    jobs = [job(**options) for _ in range(count)]
    fail_jobs(store, *jobs)
    return jobs


# -- permissions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", PERMISSIONS)
def test_item_167_each_action_needs_its_own_permission(
    database: str, action: str, client_with: Callable[..., Client], superuser: Client
) -> None:
    """Item 167 of behaviour.md, and the matrix of actions and users."""
    store = SyncStore(database)
    if action == "retry":
        (target,) = failed_jobs(store, 1)
        query = "state=failed"
    else:
        target = job(scheduled_at=later())
        store.enqueue(target)
        query = "state=scheduled"
    before = counts(database)
    others = [permission for name, permission in PERMISSIONS.items() if name != action]
    clients: list[tuple[Client, int]] = [
        (Client(), 302),
        (client_with(), 403),
        (client_with("view_job"), 403),
        (client_with(PERMISSIONS[action]), 403),  # without the permission to see tasks
        (client_with("view_job", "change_job", "delete_job", *others), 403),
        (client_with("view_job", PERMISSIONS[action]), 200),
        (superuser, 200),
    ]
    for client, status in clients:
        for confirmed in (None, "1"):
            for scope in ("selected", "all", str(target.id)):
                if (status, confirmed) != (200, "1"):
                    response = post(client, f"{action}:{scope}", [target.id], confirmed=confirmed, query=query)
                    assert response.status_code == status
    assert counts(database) == before
    assert log_entries() == []
    response = post(clients[5][0], f"{action}:selected", [target.id])
    assert response.status_code == 302
    assert counts(database) != before
    assert len(log_entries()) == 1


def test_buttons_are_shown_only_where_they_are_allowed(database: str, client_with: Callable[..., Client]) -> None:
    failed_jobs(SyncStore(database), 1)
    viewer, retrier = client_with("view_job"), client_with("view_job", "retry_job")
    assert 'name="do"' not in text_of(viewer.get(f"{LIST}?state=failed"))
    shown = text_of(retrier.get(f"{LIST}?state=failed"))
    assert 'value="retry:selected"' in shown
    assert 'value="retry:all"' in shown
    assert "discard:" not in shown
    assert "retry:" not in text_of(retrier.get(f"{LIST}?state=running"))


def test_an_action_without_a_csrf_token_is_refused(database: str, users: Any) -> None:
    (one,) = failed_jobs(SyncStore(database), 1)
    client = Client(enforce_csrf_checks=True)
    client.force_login(users.objects.create_superuser("Ada"))
    assert post(client, "retry:selected", [one.id]).status_code == 403
    assert client.post(ACTION, {"batch": "x"}).status_code == 403
    page = text_of(client.get(f"{LIST}?state=failed"))
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert token is not None
    assert post(client, "retry:selected", [one.id], csrfmiddlewaretoken=token[1]).status_code == 302
    assert counts(database) == {"ready": 1}


# -- one and several --------------------------------------------------------------------------------------------------


def test_t8_retry_selected_asks_for_confirmation_and_keeps_the_filters(database: str, superuser: Client) -> None:
    """T8 of django-taskq: bulk "retry selected". Item 163 of behaviour.md: filters are kept."""
    first, second, third = failed_jobs(SyncStore(database), 3)
    query = "state=failed&queue=default"
    asked = post(superuser, "retry:selected", [first.id, second.id], confirmed=None, query=query)
    shown = text_of(asked)
    assert "Retry 2 tasks?" in shown
    assert str(first.id) in shown
    assert str(third.id) not in shown
    assert f'href="{LIST}?state=failed&amp;queue=default"' in shown
    assert counts(database) == {"failed": 3}

    done = post(superuser, "retry:selected", [first.id, second.id], query=query, reason="the provider is up again")
    assert done.status_code == 302
    assert dict(part.split("=") for part in done["Location"].partition("?")[2].split("&")) == {
        "state": "failed",
        "queue": "default",
    }
    assert messages_of(done) == ["2 tasks were retried."]
    assert counts(database) == {"ready": 2, "failed": 1}
    message = "Retry: the task was retried. Reason: the provider is up again"
    assert log_entries() == [("Ada", str(first.id), message), ("Ada", str(second.id), message)]


def test_t8_retry_now_of_one_task_in_its_row(database: str, superuser: Client) -> None:
    """T8 of django-taskq: "Retry now" in each row."""
    first, _ = failed_jobs(SyncStore(database), 2)
    assert f'value="retry:{first.id}"' in text_of(superuser.get(f"{LIST}?state=failed"))
    assert "Retry 1 task?" in text_of(post(superuser, f"retry:{first.id}", confirmed=None))
    done = post(superuser, f"retry:{first.id}")
    assert messages_of(done) == [f"The task {first.id} was retried."]
    assert counts(database) == {"ready": 1, "failed": 1}


def test_item_164_blocked_and_scheduled_tasks_run_now(database: str, superuser: Client) -> None:
    """Item 164 of behaviour.md: blocked and scheduled tasks, and run now."""
    store = SyncStore(database)
    holder, blocked, scheduled = limited(), limited(), job(scheduled_at=later())
    store.enqueue(holder, blocked, scheduled)
    for one, state in ((blocked, "blocked"), (scheduled, "scheduled")):
        assert f'value="run_now:{one.id}"' in text_of(superuser.get(f"{LIST}?state={state}"))
        assert post(superuser, f"run_now:{one.id}").status_code == 302
    assert counts(database) == {"ready": 3}


def test_item_163_an_action_from_the_page_of_a_task_leads_back_to_it(database: str, superuser: Client) -> None:
    """Item 163 of behaviour.md: retry and discard from the detail."""
    (one,) = failed_jobs(SyncStore(database), 1)
    asked = post(superuser, f"retry:{one.id}", confirmed=None, from_job="1")
    assert f'href="{LIST}{one.id}/"' in text_of(asked)
    assert 'name="from_job"' in text_of(asked)
    assert post(superuser, f"retry:{one.id}", from_job="1")["Location"] == f"{LIST}{one.id}/"
    assert post(superuser, f"discard:{one.id}", from_job="1")["Location"] == LIST
    assert counts(database) == {}


def test_a_running_task_is_asked_to_stop(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    running, ready = job(), job()
    (claim,) = store.claimed(running)
    store.enqueue(ready)
    done = post(superuser, "cancel:selected", [running.id, ready.id], reason="wrong order")
    assert messages_of(done) == ["1 task was cancelled. 1 task was asked to stop."]
    request = Cancellation.objects.using(database).get()
    assert (request.requested_by, request.reason) == ("Ada", "wrong order")
    store.settle(Finished(claim))


# -- what has changed meanwhile ---------------------------------------------------------------------------------------


def test_a_task_that_changed_between_page_and_action_is_left_alone(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    changed, unchanged, finished = failed_jobs(store, 3)
    store.retry(changed, finished)
    claims = {claim.job_id: claim for claim in store.claim(store.worker("other"), 2)}
    store.settle(Finished(claims[finished.id]))
    done = post(superuser, "retry:selected", [changed.id, unchanged.id, finished.id], query="state=failed")
    shown = text_of(done)
    assert done.status_code == 200
    assert "is running" in shown
    assert "has finished" in shown
    assert "was retried" in shown
    assert 'href="/admin/steady_queue/job/?state=failed"' in shown
    assert len(log_entries()) == 1
    store.settle(Finished(claims[changed.id]))


def test_an_action_that_is_sent_twice_changes_nothing_the_second_time(database: str, superuser: Client) -> None:
    (one,) = failed_jobs(SyncStore(database), 1)
    assert messages_of(post(superuser, f"retry:{one.id}")) == [f"The task {one.id} was retried."]
    second = Client()
    second.cookies = superuser.cookies
    assert messages_of(post(second, f"retry:{one.id}"))[-1] == f"The task {one.id} is ready."
    assert counts(database) == {"ready": 1}
    assert len(log_entries()) == 1


@pytest.mark.parametrize(
    "do",
    [
        "",
        "explode:all",
        "retry:selected",
        "retry:x",
        "retry",
        "retry:019a8a4e-5b7c-7d1e-9a55-3f2f6f7a9c10",
        "retry:selected ",
        "\x00:all",
    ],
)
def test_a_request_that_makes_no_sense_gets_a_message_and_the_list(database: str, superuser: Client, do: str) -> None:
    response = post(superuser, do)
    assert response.status_code == 302
    assert response["Location"] == LIST
    assert len(messages_of(response)) == 1


def test_a_query_that_makes_no_sense_gets_a_message_and_the_list(database: str, superuser: Client) -> None:
    response = post(superuser, "retry:all", query="state=unknown")
    assert (response.status_code, response["Location"]) == (302, LIST)
    assert messages_of(response) == ["There is no state 'unknown'."]
    response = post(superuser, "retry:all", query="state=running")
    assert messages_of(response)[1:] == ["Retry is not possible for tasks in the state running."]


def test_a_reason_that_cannot_be_stored_is_refused_before_anything_changes(database: str, superuser: Client) -> None:
    (one,) = failed_jobs(SyncStore(database), 1)
    for reason in ("x" * 1001, "a\x00b"):
        response = post(superuser, f"retry:{one.id}", reason=reason)
        assert "the reason" in text_of(response)
    assert counts(database) == {"failed": 1}


# -- all that match ---------------------------------------------------------------------------------------------------


def run_to_the_end(client: Client, response: Any) -> tuple[Any, int]:
    """Send the form of each page of progress, as a browser does; returns the result and the number of requests."""
    requests = 1
    while state := re.search(r'name="batch" value="([^"]+)"', text_of(response)):
        assert "data-sq-submit" in text_of(response)
        response = client.post(ACTION, {"batch": state[1]})
        requests += 1
        assert requests < 20
    return response, requests


def test_item_163_all_that_match_are_retried_in_batches(
    database: str, superuser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Item 163 of behaviour.md: retry all, filtered by task or queue."""
    monkeypatch.setattr(job_actions, "BATCH_ROWS", 3)
    store = SyncStore(database)
    failed_jobs(store, 7, queue_name="mail")
    failed_jobs(store, 2)
    query = "state=failed&queue=mail"
    asked = text_of(post(superuser, "retry:all", confirmed=None, query=query))
    assert "Retry 7 tasks?" in asked
    assert "failed, queue mail" in asked
    first = post(superuser, "retry:all", query=query, reason="again")
    assert counts(database) == {"ready": 3, "failed": 6}
    result, requests = run_to_the_end(superuser, first)
    assert requests in (3, 4)
    assert counts(database) == {"ready": 7, "failed": 2}
    shown = text_of(result)
    assert "7 tasks were handled" in shown
    assert shown.count("was retried") == 7
    entries = log_entries()
    assert [text for _, _, text in entries] == [
        f"Retry: {tasks}. Reason: again" for tasks in ("3 tasks", "3 tasks", "1 task")
    ]


def test_tasks_that_fail_again_meanwhile_are_not_retried_twice(
    database: str, superuser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_actions, "BATCH_ROWS", 2)
    store = SyncStore(database)
    failed_jobs(store, 4)
    response: Any = post(superuser, "retry:all", query="state=failed")
    store.settle(*(failed(claim) for claim in store.claim(store.worker("other"), 9)))
    result, requests = run_to_the_end(superuser, response)
    assert requests <= 4
    assert "4 tasks were handled" in text_of(result)


def test_tasks_that_match_after_the_question_are_left_alone(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    failed_jobs(store, 2)
    asked = text_of(post(superuser, "retry:all", confirmed=None, query="state=failed"))
    as_of = re.search(r'name="as_of" value="([^"]+)"', asked)
    assert as_of is not None
    (late,) = failed_jobs(store, 1)
    assert "2 tasks were handled" in text_of(post(superuser, "retry:all", query="state=failed", as_of=as_of[1]))
    assert store.status(late) == ["failed"]
    for text in ("2026-01-01", "0001-01-01T00:00:00+00:00"):
        assert "0 tasks were handled" in text_of(post(superuser, "discard:all", query="state=failed", as_of=text))
    assert store.status(late) == ["failed"]


@pytest.mark.usually_on("sqlite", "postgres", "mariadb")
def test_a_confirmation_that_names_neither_tasks_nor_a_time_is_answered_with_the_question(
    database: str, superuser: Client
) -> None:
    store = SyncStore(database)
    failed_jobs(store, 2)
    impossible = ("", "x", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
    for text in (None, *impossible):
        asked = text_of(post(superuser, "discard:all", query="state=failed", as_of=text, reason="wrong order"))
        assert "Discard 2 tasks?" in asked
        assert "wrong order" in asked
    assert counts(database) == {"failed": 2}
    assert log_entries() == []
    assert "2 tasks were handled" in confirm(superuser, "discard:all", "state=failed", asked)
    assert counts(database) == {}


def confirm(client: Client, do: str, query: str, page: str) -> str:
    """Send the form of a page that asks for confirmation."""
    fields = dict(re.findall(r'name="(as_of|confirmed_ids)" value="([^"]*)"', page))
    return text_of(post(client, do, query=query, **fields))


@pytest.mark.usually_on("sqlite", "postgres", "mariadb")
def test_waiting_tasks_that_enter_a_list_after_the_question_are_left_alone(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    states = ("late", "ready", "retrying", "scheduled", "blocked")
    confirmed = {
        "late": old_job(),
        "ready": job(),
        "retrying": job(),
        "scheduled": job(scheduled_at=later()),
        "blocked": limited(key="confirmed"),
    }
    runs, failing, due, waiting = job(), job(), job(scheduled_at=later()), limited(key="other", scheduled_at=later())
    fail_jobs(store, failing)
    store.settle(*map(retried, store.claimed(confirmed["retrying"])))
    claim, *_ = store.claimed(runs, limited(key="confirmed"), limited(key="other"))
    store.enqueue(*(confirmed[state] for state in states if state != "retrying"), due, waiting)
    asked = {state: text_of(post(superuser, "discard:all", confirmed=None, query=f"state={state}")) for state in states}
    numbers = {state: int(re.findall(r"<h2>Discard (\d+) tasks?\?", page)[0]) for state, page in asked.items()}
    assert numbers == {"late": 1, "ready": 2, "retrying": 1, "scheduled": 3, "blocked": 1}

    store.settle(retried(claim))
    store.run(retry(store.sql, [failing.id]))
    store.run(run_now(store.sql, [due.id, waiting.id]))
    left = (runs, failing, due, waiting)
    before = [store.status(one) for one in left]
    assert before == [["scheduled"], ["ready"], ["ready"], ["blocked"]]
    for state in states:
        confirm(superuser, "discard:all", f"state={state}", asked[state])

    assert [store.status(one) for one in left] == before
    assert not Job.objects.using(database).filter(id__in=[one.id for one in confirmed.values()]).exists()


def test_an_action_on_no_tasks_has_no_button_and_changes_nothing(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    asked = text_of(post(superuser, "discard:all", confirmed=None, query="state=failed"))
    assert "No task matches: there is nothing to change." in asked
    assert "data-sq-once" not in asked
    (one,) = failed_jobs(store, 1)
    assert "0 tasks were handled" in text_of(post(superuser, "discard:all", query="state=failed", confirmed_ids=""))
    assert post(superuser, "discard:all", query="state=failed", confirmed_ids="x").status_code == 302
    assert store.status(one) == ["failed"]


def test_more_tasks_than_are_counted_are_bounded_by_the_time_of_the_question(
    database: str, superuser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_pages, "WINDOW_ROWS", 2)
    store = SyncStore(database)
    store.enqueue(*(job() for _ in range(5)), late := old_job(timedelta(seconds=65)))
    asked = text_of(post(superuser, "discard:all", confirmed=None, query="state=ready"))
    assert "There are more than were counted here" in asked
    assert 'name="confirmed_ids"' not in asked
    (as_of,) = re.findall(r'name="as_of" value="([^"]+)"', asked)
    earlier = (datetime.now(UTC) - timedelta(seconds=10)).isoformat()
    run_to_the_end(superuser, post(superuser, "discard:all", query="state=late", as_of=earlier))
    assert store.status(late) == ["ready"]
    store.enqueue(later_one := job())
    run_to_the_end(superuser, post(superuser, "discard:all", query="state=ready", as_of=as_of))
    assert counts(database) == {"ready": 1}
    assert store.status(later_one) == ["ready"]


def test_an_action_cannot_be_continued_with_a_state_of_another_user_or_a_changed_one(
    database: str, superuser: Client, client_with: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_actions, "BATCH_ROWS", 1)
    failed_jobs(SyncStore(database), 3)
    response = post(superuser, "retry:all", query="state=failed")
    state = re.search(r'name="batch" value="([^"]+)"', text_of(response))
    assert state is not None
    other = client_with("view_job", "retry_job")
    for client, text in ((other, state[1]), (superuser, f"x{state[1]}"), (superuser, "")):
        refused = client.post(ACTION, {"batch": text})
        assert (refused.status_code, refused["Location"]) == (302, LIST)
    assert counts(database) == {"ready": 1, "failed": 2}
    assert Client().post(ACTION, {"batch": state[1]}).status_code == 302


def test_a_user_who_loses_the_permission_cannot_continue(
    database: str, client_with: Callable[..., Client], users: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_actions, "BATCH_ROWS", 1)
    failed_jobs(SyncStore(database), 2)
    client = client_with("view_job", "retry_job")
    state = re.search(r'name="batch" value="([^"]+)"', text_of(post(client, "retry:all", query="state=failed")))
    assert state is not None
    user = users.objects.get()
    user.user_permissions.remove(user.user_permissions.get(codename="retry_job"))
    assert client.post(ACTION, {"batch": state[1]}).status_code == 403
    assert counts(database) == {"ready": 1, "failed": 1}
