"""Processes and concurrency limits in the dashboard; stopping a process."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from steady_queue.models import ProcessRequest
from steady_queue.monitoring.limit_list import PAGE_SIZE
from steady_queue.store.job import RequestKind
from tests.dashboard.samples import fill
from tests.support.store.jobs import limited
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from django.test import Client

PROCESSES = "/admin/steady_queue/process/"
LIMITS = "/admin/steady_queue/limit/"


def get(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def test_processes_are_a_tree_with_lanes_memory_lag_and_heartbeat(database: str, superuser: Client) -> None:
    """Item 165, and S39: processes with the number of their tasks and the age of their heartbeats."""
    sample = fill(database)

    with CaptureQueriesContext(connections[database]) as queries:
        page = get(superuser, PROCESSES)

    assert len(queries) <= 15
    supervisor, worker = page.index(f"sq-process-{sample.supervisor}"), page.index(f"sq-process-{sample.worker}")
    assert supervisor < worker
    row = page[worker : page.index("</tr>", worker)]
    assert 'class="sq-child"' in row
    for shown in ("async: 3 of 100 in use", "thread: 8 of 8 in use", "123 MB", "2 ms", ">11<", "alive", "ms ago"):
        assert shown in row or shown.replace("ms ago", "s ago") in row


def test_the_page_of_a_process_shows_what_it_runs(database: str, superuser: Client) -> None:
    sample = fill(database)

    with CaptureQueriesContext(connections[database]) as queries:
        page = get(superuser, f"{PROCESSES}{sample.worker}/")

    assert len(queries) <= 15
    assert f'href="/admin/steady_queue/job/{sample.running}/"' in page
    assert f'href="{PROCESSES}{sample.supervisor}/"' in page
    assert f"sq-process-{sample.worker}" in get(superuser, f"{PROCESSES}{sample.supervisor}/")


@pytest.mark.usually_on("sqlite")
def test_an_unknown_process_leads_to_the_list_with_a_message(database: str, superuser: Client) -> None:
    """Item 165."""
    for unknown in (str(uuid4()), "nothing", "<script>", "%00"):
        for path in (f"{PROCESSES}{quote(unknown)}/", f"{PROCESSES}{quote(unknown)}/stop/"):
            response = superuser.get(path, follow=True)
            assert response.redirect_chain == [(PROCESSES, 302)]
            assert "There is no process" in response.content.decode()
            assert superuser.post(path).status_code == 302


def test_a_process_is_asked_to_stop_after_a_confirmation(database: str, superuser: Client) -> None:
    from django.contrib.admin.models import LogEntry

    sample = fill(database)
    requests = ProcessRequest.objects.using(database)
    path = f"{PROCESSES}{sample.worker}/stop/"
    assert f'href="{path}"' in get(superuser, f"{PROCESSES}{sample.worker}/")
    assert "Its supervisor starts another process in its place." in get(superuser, path)
    assert "5.0 s (<code>shutdown_timeout</code>) to finish" in get(superuser, path)
    assert "Its 1 child process stops with it." in get(superuser, f"{PROCESSES}{sample.supervisor}/stop/")
    alone = SyncStore(database).worker("alone")
    assert "the web server continues and runs no tasks until it is restarted" in get(
        superuser, f"{PROCESSES}{alone}/stop/"
    )
    assert not requests.exists()

    response = superuser.post(path, {"reason": "it uses too much memory"}, follow=True)

    assert "is asked to stop. Its running tasks have 5.0 s to finish" in response.content.decode()
    (request,) = requests.all()
    assert (request.process_id, request.kind, request.requested_by) == (sample.worker, RequestKind.STOP, "Ada")
    (entry,) = LogEntry.objects.all()
    assert (entry.object_repr, entry.change_message) == ("the worker", "Asked to stop. Reason: it uses too much memory")


def test_limits_are_listed_with_their_holders_and_waiting_tasks(database: str, superuser: Client) -> None:
    sample = fill(database)

    with CaptureQueriesContext(connections[database]) as queries:
        page = get(superuser, LIMITS)

    assert len(queries) <= 15
    assert f'href="/admin/steady_queue/job/{sample.running}/"' in page
    assert 'href="/admin/steady_queue/job/?state=blocked&amp;key=key"' in page
    assert "Next page" not in page


@pytest.mark.usually_on("sqlite")
def test_limits_are_on_pages_that_continue_behind_the_last_key(database: str, superuser: Client) -> None:
    """Item 165: pagination."""
    keys = [f"key {number:03}" for number in range(PAGE_SIZE + 1)]
    SyncStore(database).enqueue(*(limited(key=key) for key in keys))

    first = get(superuser, LIMITS)
    following = f"{LIMITS}?after={quote(keys[-2]).replace('%20', '+')}"
    assert f'href="{following}"' in first
    second = get(superuser, following)

    assert [key for key in keys if f">{key}<" in first] == keys[:-1]
    assert [key for key in keys if f">{key}<" in second] == keys[-1:]
    assert "There are no further limits." in get(superuser, f"{LIMITS}?after=%FF%00z")
