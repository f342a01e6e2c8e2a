"""Processes and concurrency limits in the dashboard; stopping a process."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from steady_queue.models import Process, ProcessRequest
from steady_queue.monitoring.jobs.waiting_reasons import MAX_HOLDERS
from steady_queue.monitoring.limit_list import PAGE_SIZE
from steady_queue.monitoring.process_list import each_process, read_processes
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


def test_item_165_and_s39_processes_are_a_tree_with_lanes_memory_lag_and_heartbeat(
    database: str, superuser: Client
) -> None:
    """Item 165, and S39: processes with the number of their tasks and the age of their heartbeats."""
    sample = fill(database)

    with CaptureQueriesContext(connections[database]) as queries:
        page = get(superuser, PROCESSES)

    assert len(queries) <= 15
    supervisor, worker = page.index(f"sq-process-{sample.supervisor}"), page.index(f"sq-process-{sample.worker}")
    assert supervisor < worker
    row = page[worker : page.index("</tr>", worker)]
    assert 'class="sq-child"' in row
    for shown in ("async: 3 of 100 in use", "thread: 8 of 8 in use", "118 MiB", "2 ms", ">11<", "alive", "ms ago"):
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
def test_a_process_that_is_stuck_is_shown_as_an_error_like_one_that_is_dead(database: str, superuser: Client) -> None:
    sample = fill(database)
    Process.objects.filter(id=sample.worker).update(measurements='{"stuck_threads":1}')

    page = get(superuser, PROCESSES)

    row = page[page.index(f"sq-process-{sample.worker}") :]
    assert row.index('class="sq-child sq-row-error"') < row.index('<span class="sq-badge sq-error">stuck</span>')
    assert row.index("stuck</span>") < row.index("</tr>")


@pytest.mark.usually_on("sqlite")
def test_item_165_an_unknown_process_leads_to_the_list_with_a_message(database: str, superuser: Client) -> None:
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


@pytest.mark.usually_on("sqlite")
def test_a_process_that_is_considered_dead_is_not_asked_for_anything(database: str, superuser: Client) -> None:
    sample = fill(database)
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    Process.objects.using(database).filter(id=sample.worker).update(last_heartbeat_at=long_ago)

    for answer in (superuser.get, superuser.post):
        response = answer(f"{PROCESSES}{sample.worker}/stop/", follow=True)
        assert "is considered dead: it was not asked to stop" in response.content.decode()
    response = superuser.post(f"/admin/steady_queue/job/{sample.running}/stack/", follow=True)
    assert "is considered dead: it was not asked for the stack" in response.content.decode()

    assert not ProcessRequest.objects.using(database).exists()


@pytest.mark.usually_on("sqlite")
@pytest.mark.parametrize(
    "measured",
    [
        '{"lanes":{"a":[NaN,1],"b":[Infinity,2],"c":["x",null],"d":[-1,-1]}}',
        '{"lanes":{"a":[' + "9" * 400 + ',1]},"lag_seconds":' + "9" * 400 + "}",
        '{"lag_seconds":NaN,"memory_bytes":1e999,"stuck_threads":-Infinity}',
        '{"lanes":[],"lag_seconds":"x","memory_bytes":true,"stuck_threads":{}}',
        "[" * 100_000,
    ],
)
def test_measurements_that_cannot_be_are_not_known(database: str, superuser: Client, measured: str) -> None:
    sample = fill(database)
    metadata = '{"version":{},"actors":[{"kind":"worker","queues":5},{"kind":"worker","queues":[1,null]},7]}'
    Process.objects.using(database).update(measurements=measured, metadata=metadata)

    for name in ("overview/", "process/", f"process/{sample.worker}/", "queue/"):
        assert superuser.get(f"/admin/steady_queue/{name}").status_code == 200
    (worker,) = [row for row in each_process(read_processes()) if row.id == sample.worker]
    assert (worker.lanes, worker.loop_lag_seconds, worker.memory_bytes, worker.stuck_threads) == ([], None, None, 0)
    for name in ("overview/json/", "queue/json/"):
        answer = superuser.get(f"/admin/steady_queue/{name}")
        assert json.loads(answer.content, parse_constant=pytest.fail)

    Process.objects.using(database).update(measurements=None, metadata="[" * 100_000)
    assert superuser.get(PROCESSES).status_code == 200
    Process.objects.using(database).update(metadata="{}")


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
    assert "There are no further limits." in get(superuser, f"{LIMITS}?after=%FFz")


@pytest.mark.usually_on("sqlite")
def test_why_a_task_waits_leads_to_its_limit(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    *holders, waiting = [limited(key="b & c", to=MAX_HOLDERS + 1) for _ in range(MAX_HOLDERS + 2)]
    store.enqueue(limited(key="a"), *holders, waiting)

    task = get(superuser, f"/admin/steady_queue/job/{waiting.id}/")
    assert f'href="{LIMITS}?key=b+%26+c"' in task
    page = get(superuser, f"{LIMITS}?key=b+%26+c")

    assert ">b &amp; c<" in page
    assert ">a<" not in page
    assert "All limits" in page
    assert "No task holds a slot of the key <bdi>unknown</bdi>" in get(superuser, f"{LIMITS}?key=unknown")


@pytest.mark.usually_on("sqlite", "postgres")
@pytest.mark.parametrize("query", ["key=unknown%00", "after=a%00", "key=" + "x" * 513])
def test_a_key_that_cannot_be_stored_leads_to_the_list_with_a_message(
    database: str, superuser: Client, query: str
) -> None:
    response = superuser.get(f"{LIMITS}?{query}", follow=True)
    assert response.redirect_chain == [(LIMITS, 302)]
    assert "There is no key &#x27;" in response.content.decode()
