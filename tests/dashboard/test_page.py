"""What all pages of the dashboard have in common."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import OperationalError, connections
from django.test import Client, override_settings

import steady_queue
from steady_queue.errors import StoreBug
from tests.dashboard.samples import fill

if TYPE_CHECKING:
    from collections.abc import Callable

OVERVIEW = "/admin/steady_queue/overview/"


@pytest.mark.usually_on("sqlite")
def test_the_admin_lists_the_dashboard(database: str, superuser: Client) -> None:
    assert OVERVIEW in superuser.get("/admin/").content.decode()
    assert superuser.get(OVERVIEW).status_code == 200


@pytest.mark.usually_on("sqlite")
def test_a_page_needs_the_permission_to_view_it(database: str, client_with: Callable[..., Client]) -> None:
    assert client_with().get(OVERVIEW).status_code == 403
    assert client_with("view_overview").get(OVERVIEW).status_code == 200
    assert Client().get(OVERVIEW).status_code == 302


@pytest.mark.usually_on("sqlite")
def test_the_permission_to_change_a_model_does_not_open_its_page(
    database: str, client_with: Callable[..., Client]
) -> None:
    for name in ("job", "process", "recurringtask"):
        url = f"/admin/steady_queue/{name}/"
        client = client_with(f"change_{name}")
        assert client.get(url).status_code == 403
        assert url not in client.get("/admin/").content.decode()


def refuse(*_: Any) -> NoReturn:
    """Executes no statement, as if the server were away."""
    raise OperationalError("could not connect to db.internal")


@pytest.mark.usually_on("sqlite")
def test_a_page_without_the_database_of_the_users_says_so_without_details(database: str, superuser: Client) -> None:
    with connections["default"].execute_wrapper(refuse), connections[database].execute_wrapper(refuse):
        page, data = superuser.get(OVERVIEW), superuser.get(f"{OVERVIEW}json/")
        posted = superuser.post(f"{OVERVIEW}seen/")
    assert (page.status_code, data.status_code, posted.status_code) == (503, 503, 503)
    assert "The database cannot be read." in page.content.decode()
    assert data.json() == {"error": "The database cannot be read."}
    assert "db.internal" not in page.content.decode()
    assert "no-store" in page["Cache-Control"]


@pytest.mark.usually_on("sqlite")
def test_a_page_says_that_the_database_cannot_be_read_after_any_error_of_it(database: str, superuser: Client) -> None:
    def fail(*_: Any) -> NoReturn:
        raise StoreBug("file is not a database")

    with connections[database].execute_wrapper(fail):
        page, data = superuser.get(OVERVIEW), superuser.get(f"{OVERVIEW}json/")
    assert (page.status_code, data.status_code) == (503, 503)
    assert "file is not a database" in page.content.decode()
    assert data.json() == {"error": "file is not a database"}


@pytest.mark.usually_on("sqlite")
def test_a_page_that_refreshes_itself_is_told_that_what_it_shows_no_longer_exists(
    database: str, superuser: Client
) -> None:
    """Without a redirect, which it would take for the one to the page to log in, and without messages for later."""
    unknown = uuid4()
    for path, message in {
        f"job/{unknown}/": f"There is no task {unknown}.",
        f"process/{unknown}/": f"There is no process {unknown}: it has stopped, or was pruned.",
        "queue/nothing/": "The queue nothing is not known: it has no ready tasks, is not paused, and ran none lately.",
        "recurringtask/task/?key=x": "There is no recurring task with the key 'x'; it may have been deleted.",
    }.items():
        response = superuser.get(f"/admin/steady_queue/{path}", headers={"X-Steady-Queue-Refresh": "1"})
        assert (response.status_code, response.content.decode()) == (410, message)
        assert response["Content-Type"] == "text/plain; charset=utf-8"
        assert "messages" not in response.cookies
    assert "messagelist" not in superuser.get(OVERVIEW).content.decode()


@pytest.mark.usually_on("sqlite")
def test_pages_do_not_need_the_context_processor_that_adds_the_request(database: str, superuser: Client) -> None:
    fill(database)
    templates: Any = deepcopy(settings.TEMPLATES)
    templates[0]["OPTIONS"]["context_processors"].remove("django.template.context_processors.request")
    with override_settings(TEMPLATES=templates):
        for name in ("overview", "job", "queue", "process", "limit", "recurringtask"):
            assert superuser.get(f"/admin/steady_queue/{name}/").status_code == 200


def test_each_form_that_changes_something_is_sent_once() -> None:
    pages = Path(steady_queue.__file__).parent / "templates" / "steady_queue"
    texts = [page.read_text() for page in pages.rglob("*.html")]
    forms = [form for text in texts for form in re.findall('<form method="post".*', text)]
    assert len(forms) > 10
    assert [form for form in forms if " data-sq-once" not in form] == []
