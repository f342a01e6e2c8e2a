"""Queues in the dashboard: lists, pages, JSON; pause, resume and clear."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from steady_queue import actions
from steady_queue.dashboard import queue_clearing
from steady_queue.dashboard.url_parts import encode
from steady_queue.models import Job, Pause, ReadyExecution
from steady_queue.monitoring.queue_list import MAX_QUEUES
from tests.dashboard.samples import HOSTILE, fill
from tests.support.databases.tables import counts
from tests.support.store.jobs import job
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

#: What Django leaves as it is in URLs.
URL_CHARACTERS = "/~:@!$&'()*+,;="
QUEUES = "/admin/steady_queue/queue/"


def page_of(name: str, action: str = "") -> str:
    return f"{QUEUES}{quote(encode(name), safe=URL_CHARACTERS)}/{f'{action}/' if action else ''}"


def get(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def post(client: Client, path: str, **fields: str) -> str:
    """The page that follows, with its message."""
    response = client.post(path, fields, follow=True)
    assert response.redirect_chain
    assert response.status_code == 200
    return response.content.decode()


def log_entries() -> list[tuple[str, str, str]]:
    from django.contrib.admin.models import LogEntry

    return [
        (entry.user.get_username(), entry.object_id or "", entry.change_message)
        for entry in LogEntry.objects.order_by("id")
    ]


def paused(alias: str) -> list[str]:
    return sorted(Pause.objects.using(alias).values_list("queue_name", flat=True))


def test_item_161_and_s39_queues_are_listed_by_name_with_size_latency_rate_and_state(
    database: str, superuser: Client
) -> None:
    """Item 161, and S39: queues with the number of pending tasks, sorted."""
    fill(database)

    with CaptureQueriesContext(connections[database]) as queries:
        page = get(superuser, QUEUES)

    assert len(queries) <= 15
    names = ["default", "mail", "reports"]
    places = [page.index(f'href="{page_of(name)}"') for name in names]
    assert places == sorted(places)
    assert 'href="/admin/steady_queue/job/?state=ready&amp;queue=mail"' in page
    assert '<span class="sq-badge sq-warning">paused</span>' in page
    assert "50 attempts ended in the last hour" in page
    assert page.count(">Resume<") == 1


def test_item_161_the_page_of_a_queue_has_its_numbers_and_leads_to_its_tasks(database: str, superuser: Client) -> None:
    """Item 161: the tasks of a queue are listed, and an empty one says so."""
    fill(database)

    with CaptureQueriesContext(connections[database]) as queries:
        page = get(superuser, page_of("mail"))

    assert len(queries) <= 15
    assert "45 finished and 5 failed" in page
    assert "No live process serves this queue." in page
    for state in ("ready", "running", "failed"):
        assert f'href="/admin/steady_queue/job/?state={state}&amp;queue=mail"' in page
    assert "tests.shop.tasks.noop" in get(superuser, "/admin/steady_queue/job/?state=ready&queue=mail")
    assert "No task matches." in get(superuser, "/admin/steady_queue/job/?state=ready&queue=default")
    assert "No task is ready." in get(superuser, page_of("reports"))


def test_item_161_a_queue_is_paused_and_resumed_from_the_list_and_from_its_page(
    database: str, superuser: Client
) -> None:
    """Item 161; each change is in the admin's log, with who and why."""
    page = post(superuser, page_of("mail", "pause"), next="list")
    assert "The queue mail is paused." in page
    assert "<h1>Queues</h1>" in page
    assert paused(database) == ["mail"]

    assert "The queue mail was already paused." in post(superuser, page_of("mail", "pause"))

    page = post(superuser, page_of("mail", "resume"), reason="the provider is back")
    assert "The queue mail is resumed." in page
    assert "<h1>Queue mail</h1>" in page
    assert paused(database) == []

    assert "The queue mail was not paused." in post(superuser, page_of("mail", "resume"))
    assert log_entries() == [
        ("Ada", "mail", "Paused."),
        ("Ada", "mail", "Resumed. Reason: the provider is back"),
    ]
    assert f'href="{page_of("mail")}"' in get(superuser, "/admin/")


def test_s40_a_paused_queue_is_not_claimed_until_it_is_resumed(database: str, superuser: Client) -> None:
    """S40: pausing a queue stops new claims, and resuming it restores them."""
    store = SyncStore(database)
    store.enqueue(job(queue_name="mail"))
    worker = store.worker()

    post(superuser, page_of("mail", "pause"))
    assert store.claim(worker) == []

    post(superuser, page_of("mail", "resume"))
    assert len(store.claim(worker)) == 1


def test_clearing_a_queue_says_how_many_tasks_are_deleted_and_deletes_only_those(
    database: str, superuser: Client
) -> None:
    fill(database)
    before = counts(database)
    confirmation = get(superuser, page_of("mail", "clear"))
    assert "This deletes 1 ready task of the queue" in confirmation
    assert counts(database) == before
    fields = dict(re.findall(r'name="(as_of|confirmed_ids)" value="([^"]*)"', confirmation))
    SyncStore(database).enqueue(*(added := [job(queue_name="mail") for _ in range(3)]))

    page = post(superuser, page_of("mail", "clear"), reason="sent twice", **fields)

    assert "1 ready task of the queue mail deleted." in page
    assert "no ready tasks that were confirmed" in post(superuser, page_of("mail", "clear"), **fields)
    in_queue = ReadyExecution.objects.using(database).filter(queue_name="mail")
    assert sorted(in_queue.values_list("job_id", flat=True)) == [new.id for new in added]
    actions.discard_many([str(new.id) for new in added])
    after = counts(database)
    assert {table for table in before if before[table] != after[table]} == {"ready"}
    assert log_entries() == [("Ada", "mail", "Cleared: 1 ready task deleted. Reason: sent twice")]

    assert "there is nothing to clear" in get(superuser, page_of("mail", "clear"))
    assert "no ready tasks that were confirmed" in post(superuser, page_of("mail", "clear"), confirmed_ids="")
    assert len(log_entries()) == 1


@pytest.mark.usually_on("sqlite")
def test_a_queue_is_not_cleared_by_a_request_that_names_neither_tasks_nor_a_time(
    database: str, superuser: Client
) -> None:
    SyncStore(database).enqueue(*(job(queue_name="mail") for _ in range(2)))
    for fields in ({}, {"as_of": ""}, {"as_of": "soon"}):
        page = superuser.post(page_of("mail", "clear"), {"reason": "sent twice", **fields}).content.decode()
        assert "This deletes 2 ready tasks of the queue" in page
        assert "sent twice" in page
    assert counts(database) == {"ready": 2}
    assert log_entries() == []
    assert "2 ready tasks" in post(superuser, page_of("mail", "clear"), as_of=datetime.now(UTC).isoformat())
    assert counts(database) == {}


def test_a_queue_is_cleared_in_batches_each_with_an_entry_in_the_log(
    database: str, superuser: Client, client_with: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_clearing, "BATCH_ROWS", 2)
    store = SyncStore(database)
    store.enqueue(*(job(queue_name="mail") for _ in range(5)), job(queue_name="other"), job())
    url = page_of("mail", "clear")
    fields = dict(re.findall(r'name="(as_of|confirmed_ids)" value="([^"]*)"', get(superuser, url)))
    store.enqueue(job(queue_name="mail"))

    page = superuser.post(url, {**fields, "reason": "sent twice"})

    assert counts(database) == {"ready": 6}
    assert log_entries() == [("Ada", "mail", "Cleared: 2 ready tasks deleted. Reason: sent twice")]
    states = []
    while found := re.search(r'name="batch" value="([^"]+)"', page.content.decode()):
        assert f'action="{url}"' in page.content.decode()
        assert "data-sq-submit" in page.content.decode()
        states.append(found[1])
        for other in (page_of("other", "clear"), "/admin/steady_queue/job/action/"):
            assert "cannot be continued" in post(superuser, other, batch=found[1])
        assert client_with("view_queue", "discard_job").post(url, {"batch": found[1]}).status_code == 403
        page = superuser.post(url, {"batch": found[1]}, follow=True)
    assert "5 ready tasks of the queue mail deleted." in page.content.decode()
    assert counts(database) == {"ready": 3}
    assert [message for _, _, message in log_entries()] == [
        f"Cleared: {tasks} deleted. Reason: sent twice" for tasks in ("2 ready tasks", "2 ready tasks", "1 ready task")
    ]
    for state in (states[-1], "x"):  # sent again, and forged
        post(superuser, url, batch=state)
    assert (counts(database), len(log_entries())) == ({"ready": 3}, 3)


@pytest.mark.parametrize("name", [HOSTILE, "json", "..", "pause", "تقارير", "50 % off/"], ids=range(6))
@pytest.mark.usually_on("sqlite")
def test_queues_of_any_name_have_pages_and_can_be_changed(database: str, superuser: Client, name: str) -> None:
    SyncStore(database).enqueue(job(queue_name=name))

    assert f'href="{escape(page_of(name))}"' in get(superuser, QUEUES)
    assert "<dt>Ready tasks</dt><dd>1</dd>" in get(superuser, page_of(name))
    assert "is paused" in post(superuser, page_of(name, "pause"))
    assert paused(database) == [name]
    assert "is resumed" in post(superuser, page_of(name, "resume"))
    assert "1 ready task" in post(superuser, page_of(name, "clear"), as_of=datetime.now(UTC).isoformat())
    assert not Job.objects.using(database).exists()


@pytest.mark.usually_on("sqlite")
def test_an_unknown_queue_leads_to_the_list_with_a_message(database: str, superuser: Client) -> None:
    for path in (page_of("nothing"), page_of("nothing", "clear")):
        response = superuser.get(path, follow=True)
        assert response.redirect_chain == [(QUEUES, 302)]
        assert "The queue nothing is not known" in response.content.decode()
    assert "Nothing was changed: the queue" in post(superuser, page_of("a*", "pause"))
    assert paused(database) == []


@pytest.mark.usually_on("sqlite", "postgres")
@pytest.mark.parametrize(
    ("part", "problem"), [("%00", "contains a NUL"), ("_00", "contains a NUL"), ("x" * 256, "has 256 characters")]
)
def test_a_queue_whose_name_cannot_be_stored_leads_to_the_list_with_a_message(
    database: str, superuser: Client, part: str, problem: str
) -> None:
    url = f"{QUEUES}{part}/"
    for answer, path in (
        (superuser.get, url),
        (superuser.get, f"{url}clear/"),
        (superuser.post, f"{url}clear/"),
        (superuser.post, f"{url}pause/"),
        (superuser.post, f"{url}resume/"),
    ):
        response = answer(path, follow=True)
        assert response.redirect_chain == [(QUEUES, 302)]
        assert response.status_code == 200
        text = response.content.decode()
        assert "There is no queue &#x27;" in text
        assert problem in text


@pytest.mark.usually_on("sqlite")
def test_depth_and_age_of_queues_are_json_behind_the_same_permission(
    database: str, client_with: Callable[..., Client]
) -> None:
    actions.pause("reports")
    SyncStore(database).enqueue(job(queue_name="mail"))

    response = client_with("view_queue").get(f"{QUEUES}json/")

    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    found: dict[str, Any] = response.json()
    assert found["queues"]["mail"]["size"] == 1
    assert found["queues"]["mail"]["latency_seconds"] >= 0
    assert found["queues"]["reports"]["is_paused"]
    assert found["is_complete"]
    assert client_with("view_overview").get(f"{QUEUES}json/").status_code == 403


@pytest.mark.usually_on("sqlite")
def test_a_list_of_queues_that_is_cut_says_so(database: str, superuser: Client) -> None:
    assert "there may be more" not in get(superuser, QUEUES)
    SyncStore(database).enqueue(*(job(queue_name=f"queue {number}") for number in range(MAX_QUEUES + 1)))

    assert "Only 200 queues are listed; there may be more." in get(superuser, QUEUES)
    found = superuser.get(f"{QUEUES}json/").json()
    assert (found["is_complete"], len(found["queues"])) == (False, MAX_QUEUES)
