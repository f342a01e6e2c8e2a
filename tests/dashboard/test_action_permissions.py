"""Who may pause, resume and clear queues and stop processes; and that a GET request never does."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from steady_queue import actions
from steady_queue.models import ProcessRequest
from tests.dashboard.samples import fill
from tests.support.databases.tables import query

if TYPE_CHECKING:
    from collections.abc import Callable

#: The action: its permission, the permission to view its page, and its path.
ACTIONS = {
    "pause": ("pause_queue", "view_queue", "queue/mail/pause/"),
    "resume": ("pause_queue", "view_queue", "queue/reports/resume/"),
    "clear": ("clear_queue", "view_queue", "queue/mail/clear/"),
    "stop": ("stop_process", "view_process", "process/{worker}/stop/"),
}
TABLES = ("job", "readyexecution", "pause", "processrequest")
#: The users, and whether they may change something.
USERS = {
    "anonymous": False,
    "staff without permissions": False,
    "view only": False,
    "that permission without view": False,
    "other permissions": False,
    "view and that permission": True,
    "superuser": True,
}


def read_rows(alias: str) -> dict[str, list[tuple[object, ...]]]:
    return {table: sorted(query(alias, f"SELECT * FROM steady_queue_{table}"), key=repr) for table in TABLES}


def clients(client_with: Callable[..., Client], superuser: Client, permission: str, view: str) -> dict[str, Client]:
    others = {"pause_queue", "clear_queue", "stop_process", "retry_job", "change_process", "delete_process"} - {
        permission
    }
    return {
        "anonymous": Client(),
        "staff without permissions": client_with(),
        "view only": client_with(view),
        "that permission without view": client_with(permission),
        "other permissions": client_with(view, *others),
        "view and that permission": client_with(view, permission),
        "superuser": superuser,
    }


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.usually_on("sqlite")
def test_item_167_an_action_needs_its_own_permission_and_a_post_request(
    database: str, client_with: Callable[..., Client], superuser: Client, action: str
) -> None:
    """Item 167."""
    permission, view, path = ACTIONS[action]
    sample = fill(database)
    url = f"/admin/steady_queue/{path.format(worker=sample.worker)}"
    before = read_rows(database)
    by_name = clients(client_with, superuser, permission, view)

    for name, client in by_name.items():
        is_confirmed = action in ("clear", "stop")
        allowed = 200 if is_confirmed else 405
        assert client.get(url).status_code == (allowed if USERS[name] or not is_confirmed else refusal(name)), name
        client.head(url)
        client.options(url)
        assert read_rows(database) == before, name

    for name, client in by_name.items():
        response = client.post(url, {"as_of": datetime.now(UTC).isoformat()})
        assert response.status_code == (302 if USERS[name] else refusal(name)), name
        assert (read_rows(database) != before) is USERS[name], name
        undo(action, database)
        before = read_rows(database)


@pytest.mark.usually_on("sqlite")
def test_a_post_request_without_a_token_changes_nothing(database: str, superuser: Client) -> None:
    sample = fill(database)
    before = read_rows(database)
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = superuser.cookies

    for _, _, path in ACTIONS.values():
        assert strict.post(f"/admin/steady_queue/{path.format(worker=sample.worker)}").status_code == 403
    assert strict.post("/admin/steady_queue/overview/seen/").status_code == 403
    assert read_rows(database) == before


@pytest.mark.usually_on("sqlite")
def test_pages_show_only_the_actions_that_the_user_may_take(database: str, client_with: Callable[..., Client]) -> None:
    sample = fill(database)
    viewer = client_with("view_queue", "view_process", "view_overview", "view_limit")
    for path in ("queue/", "queue/mail/", "process/", f"process/{sample.worker}/", "overview/", "limit/"):
        page = viewer.get(f"/admin/steady_queue/{path}").content.decode()
        for shown in (">Pause<", "Pause this queue", "Clear this queue", "Stop this process", "/steady_queue/job/"):
            assert shown not in page.replace('<button type="button" class="sq-button"></button>', ""), path


def refusal(name: str) -> int:
    return 302 if name == "anonymous" else 403


def undo(action: str, alias: str) -> None:
    if action == "pause":
        actions.resume("mail")
    elif action == "resume":
        actions.pause("reports")
    elif action == "stop":
        ProcessRequest.objects.using(alias).all().delete()
    else:
        refill(alias)


def refill(alias: str) -> None:
    from tests.support.store.jobs import job
    from tests.support.store.stores import SyncStore

    SyncStore(alias).enqueue(job(queue_name="mail"))
