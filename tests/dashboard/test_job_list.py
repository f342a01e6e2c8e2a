"""Lists of tasks by state: tabs, filters, pages."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html import unescape
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext, override_settings

from steady_queue.models import Job
from steady_queue.monitoring.jobs import pages as job_pages
from steady_queue.monitoring.jobs.counts_by_task import LOOKED_UP
from steady_queue.monitoring.states import JobState
from steady_queue.store.outcome import Finished
from tests.support.databases.tables import counts
from tests.support.store.jobs import PATH, fail_jobs, job, later, limited
from tests.support.store.states import make_all_states, make_overdue
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from django.test import Client

DELAYED = {"scheduled_at": later()}
LIST = "/admin/steady_queue/job/"


def read(client: Client, url: str = LIST, status: int = 200) -> str:
    response = client.get(url)
    assert response.status_code == status, response
    return response.content.decode()


def test_the_page_set_of_tasks_opens_on_each_database(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    failed, running, finished, blocked, holder, scheduled = job(), job(), job(), limited(), limited(), job(**DELAYED)
    fail_jobs(store, failed)
    claim, other = store.claimed(running, finished)
    store.settle(Finished(other))
    store.enqueue(holder, blocked, scheduled)
    for state in JobState:
        assert f'?state={state}" aria-current="page"' in read(superuser, f"{LIST}?state={state}")
    page = read(superuser)
    for one in (failed, running, finished, blocked, holder, scheduled):
        assert f'value="{one.id}"' in page
        assert str(one.id) in read(superuser, f"{LIST}{one.id}/")
    asked = superuser.post(f"{LIST}action/", {"do": "retry:all", "query": "state=failed"})
    assert "Retry 1 task?" in asked.content.decode()
    confirmed = {"confirmed": "1", "as_of": datetime.now(UTC).isoformat()}
    done = superuser.post(f"{LIST}action/", {"do": "retry:all", "query": "state=failed", **confirmed})
    assert "was retried" in done.content.decode()
    store.settle(Finished(claim))


@pytest.mark.usually_on("sqlite")
def test_no_page_sends_more_than_fifteen_queries_to_the_database_of_the_queue(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    one, blocked = limited(), limited()
    (claim,) = store.claimed(one)
    store.enqueue(blocked, *(job() for _ in range(60)))
    urls = [LIST, f"{LIST}?state=ready&task=noop&text=x&since=1h", f"{LIST}{one.id}/", f"{LIST}{blocked.id}/"]
    for url in [*urls, *(f"{LIST}?state={state}" for state in JobState)]:
        with CaptureQueriesContext(connections[database]) as queries:
            read(superuser, url)
        assert len(queries) <= 15, url
    store.settle(Finished(claim))


@pytest.mark.usually_on("sqlite")
def test_filters_are_chips_that_can_be_removed(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    mail, other = job(queue_name="mail", task_path="shop.tasks.send"), job()
    fail_jobs(store, mail, other)
    page = read(superuser, f"{LIST}?state=failed&queue=mail&task=send&error=ValueError&since=1h")
    assert str(mail.id) in page
    assert str(other.id) not in page
    for label, text in (("Queue", "mail"), ("Task", "send"), ("Error class", "ValueError")):
        assert f"{label}: <bdi>{text}</bdi>" in page
    without_queue = re.search(r'href="\?([^"]+)" aria-label="Remove the filter Queue"', page)
    assert without_queue is not None
    query = dict(parse_qsl(unescape(without_queue[1])))
    assert query.pop("since")
    assert query == {"state": "failed", "task": "send", "error": "ValueError"}
    # The tabs of the other states keep the filters, and so does the form.
    assert re.search(r'href="\?state=exhausted&amp;queue=mail&amp;task=send', page)
    assert 'name="state" value="failed"' in page
    assert 'name="queue" value="mail"' in page
    # What an action is posted with is what the page shows.
    posted = re.search(r'name="query" value="([^"]+)"', page)
    assert posted is not None
    assert dict(parse_qsl(unescape(posted[1])))["queue"] == "mail"


@pytest.mark.usually_on("sqlite")
def test_a_task_is_found_by_its_id(database: str, superuser: Client) -> None:
    one, other = job(), job()
    SyncStore(database).enqueue(one, other)
    for text in (str(one.id), one.id.hex, f" {str(one.id).upper()} "):
        page = read(superuser, f"{LIST}?{urlencode({'id': text})}")
        assert f'value="{one.id}"' in page
        assert f'value="{other.id}"' not in page


@pytest.mark.usually_on("sqlite")
def test_item_164_finished_tasks_are_filtered_by_time_and_late_ones_are_marked(
    database: str, superuser: Client
) -> None:
    """Item 164 of behaviour.md: scheduled list with delayed tag, finished filtered by date."""
    store = SyncStore(database)
    finished, late = job(), job(enqueued_at=later(hours=-2))
    (claim,) = store.claimed(finished)
    store.settle(Finished(claim))
    assert f"/{finished.id}/" in read(superuser, f"{LIST}?state=finished&since=1h")
    assert f"/{finished.id}/" not in read(superuser, f"{LIST}?state=finished&before=1h")
    store.enqueue(late)
    late_badge = '<span class="sq-badge sq-warning">late</span>'
    assert late_badge in read(superuser, f"{LIST}?state=ready")
    store.enqueue(job(**DELAYED))
    assert late_badge not in read(superuser, f"{LIST}?state=scheduled")
    make_overdue(store, job())
    assert read(superuser, f"{LIST}?state=scheduled").count(late_badge) == 1


@pytest.mark.usually_on("sqlite")
@pytest.mark.parametrize(
    "query", ["state=x", "since=never", "id=zz", "queue=%00", "before=9999999999d", "text=" + "x" * 501]
)
def test_a_filter_that_makes_no_sense_is_explained(database: str, superuser: Client, query: str) -> None:
    page = read(superuser, f"{LIST}?{query}", status=400)
    assert 'role="alert"' in page
    assert "Filter" in page


@pytest.mark.usually_on("sqlite")
def test_item_165_pages_follow_each_other_in_both_directions(database: str, superuser: Client) -> None:
    """Item 165 of behaviour.md: pagination."""
    store = SyncStore(database)
    jobs = [job() for _ in range(120)]
    fail_jobs(store, *jobs)
    url, pages = f"{LIST}?state=failed", []
    while url:
        page = read(superuser, url)
        pages.append(re.findall(r'name="ids" value="([^"]+)"', page))
        older = re.search(r'href="\?([^"]+)" rel="next">Older<', page)
        url = f"{LIST}?{unescape(older[1])}" if older else ""
    assert [len(ids) for ids in pages] == [50, 50, 20]
    assert sorted(id_ for ids in pages for id_ in ids) == sorted(str(one.id) for one in jobs)
    newer = re.search(r'href="\?([^"]+)" rel="prev">Newer<', page)
    assert newer is not None
    before = read(superuser, f"{LIST}?{unescape(newer[1])}")
    assert re.findall(r'name="ids" value="([^"]+)"', before) == pages[1]
    for cursor in ("x", "AAAA", "W10", "\x00"):
        assert len(read(superuser, f"{LIST}?{urlencode({'state': 'failed', 'after': cursor})}")) > 1000


@pytest.mark.usually_on("sqlite")
def test_times_that_other_zones_cannot_express_are_shown(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    far, early = job(scheduled_at=datetime(9999, 12, 31, 23, 59, tzinfo=UTC)), job()
    fail_jobs(store, early)
    error = {"exception_class_path": "builtins.ValueError", "attempt": 1, "started_at": "0001-01-01T00:00:00+14:00"}
    Job.objects.using(database).filter(id=early.id).update(errors=json.dumps(error))
    store.enqueue(far)
    for zone in ("Asia/Tokyo", "America/Lima"):
        with override_settings(TIME_ZONE=zone):
            assert "9999-12-31" in read(superuser, f"{LIST}?state=scheduled")
            assert "It is scheduled for 9999-12-31" in read(superuser, f"{LIST}{far.id}/")
            assert "ValueError" in read(superuser, f"{LIST}{early.id}/")
            read(superuser, f"{LIST}?since=0001-01-01T00:00:00%2B00:00&before=9999-12-31T23:59:59%2B00:00")


T8_LISTS = {
    "Failed": "failed",
    "Lost": "lost",  # "Dirty": its process does not live any more
    "Running": "running",  # "Active"
    "Ready": "ready",  # "Pending"
    "Scheduled": "scheduled",  # "Future"
}


def counts_by_task(page: str) -> dict[str, str]:
    """The numbers by task, as the page shows them."""
    return dict(
        re.findall(r'task=([\w.]+)[^"]*" class="sq-break"><bdi>[^<]*</bdi></a> <span class="sq-count">([\d+]+)<', page)
    )


def test_t6_and_t8_failed_dirty_active_pending_and_future_tasks_are_counted_by_function(
    database: str, superuser: Client
) -> None:
    """T8 of django-taskq: five lists, and how many tasks of each function are in each. T6: active and dirty ones."""
    store = SyncStore(database)
    fail_jobs(store, *(failed := [job(task_path="shop.tasks.send", queue_name=name) for name in ("default", "mail")]))
    make_all_states(store)
    store.enqueue(*(job(task_path="shop.tasks.send") for _ in range(2)))
    found = {title: counts_by_task(read(superuser, f"{LIST}?state={state}")) for title, state in T8_LISTS.items()}
    assert found == {
        "Failed": {"shop.tasks.send": "2", PATH: "2"},  # also the lost one
        "Lost": {PATH: "1"},
        "Running": {PATH: "1"},
        "Ready": {"shop.tasks.send": "2", PATH: "1"},
        "Scheduled": {PATH: "2"},  # also the late one
    }

    page = read(superuser, f"{LIST}?state=failed&since=1h")
    assert counts_by_task(page) == {"shop.tasks.send": "2", PATH: "2"}
    link = re.search(r'href="\?([^"]+)" class="sq-break"><bdi>shop.tasks.send<', page)
    assert link is not None
    query = dict(parse_qsl(unescape(link[1])))
    assert query.pop("since")
    assert query == {"state": "failed", "task": "shop.tasks.send"}
    filtered = read(superuser, f"{LIST}?{unescape(link[1])}")
    assert sorted(re.findall(r'name="ids" value="([^"]+)"', filtered)) == sorted(str(one.id) for one in failed)
    assert 'id="sq-tasks"' not in filtered  # no index has the path of a task


@pytest.mark.usually_on("sqlite")
def test_counts_by_task_of_long_lists_say_that_there_may_be_more(database: str, superuser: Client) -> None:
    SyncStore(database).enqueue(*(job(task_path=f"shop.tasks.t{number % 22}") for number in range(LOOKED_UP + 1)))
    page = read(superuser, f"{LIST}?state=ready")
    assert len(counts_by_task(page)) == 20
    assert counts_by_task(page)["shop.tasks.t0"] == "23+"
    assert "and 2 more" in page
    assert "counted in the first 500 of this list" in page
    older = re.search(r'href="\?([^"]+)" rel="next">', page)
    assert older is not None
    assert 'id="sq-tasks"' not in read(superuser, f"{LIST}?{unescape(older[1])}")


@pytest.mark.usually_on("sqlite")
def test_s39_tasks_have_lists_that_say_what_matters_in_their_state_and_nothing_is_edited(
    database: str, superuser: Client
) -> None:
    """S39: tasks, failed, scheduled, in progress with running since, blocked; read-only except the actions."""
    states = make_all_states(SyncStore(database))
    for state, title in {
        JobState.FAILED: "Failed",
        JobState.SCHEDULED: "Due",
        JobState.RUNNING: "Running since",
        JobState.BLOCKED: "Enqueued",
        JobState.FINISHED: "Finished",
    }.items():
        page = read(superuser, f"{LIST}?state={state}")
        assert f'<th scope="col">{title}</th>' in page
        assert str(states[state].id) in page
    for path in ("add/", f"{states[JobState.READY].id}/delete/", f"{states[JobState.READY].id}/change/"):
        assert superuser.get(f"{LIST}{path}").status_code in (302, 404)


def test_tabs_have_counts_only_without_filters(database: str, superuser: Client) -> None:
    SyncStore(database).enqueue(job(), job())
    tab = 'Ready <span class="sq-count">2</span>'
    assert tab in read(superuser, f"{LIST}?state=ready")
    assert 'class="sq-count"' not in read(superuser, f"{LIST}?state=ready&queue=other")


def test_lists_without_tasks_say_so(database: str, superuser: Client) -> None:
    assert "There are no tasks." in read(superuser)
    assert "No task matches." in read(superuser, f"{LIST}?state=failed")


@pytest.mark.usually_on("sqlite")
def test_a_search_that_is_not_finished_says_how_many_tasks_it_searched(
    database: str, superuser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST_ROWS", "PAGE_WINDOW_ROWS", "WINDOW_ROWS"):
        monkeypatch.setattr(job_pages, name, 2)
    SyncStore(database).enqueue(*(job() for _ in range(5)))
    query = "state=ready&task=unknown"

    page = read(superuser, f"{LIST}?{query}")
    assert "None of the first 2 tasks of this list matches. Search further continues." in page
    further = re.search(r'href="\?([^"]+)" rel="next">Search further<', page)
    assert further is not None
    assert "None of the next 2 tasks of this list matches." in read(superuser, f"{LIST}?{unescape(further[1])}")
    asked = superuser.post(f"{LIST}action/", {"do": "cancel:all", "query": query}).content.decode()
    assert "Cancel all tasks that match?" in asked
    assert "None of the first 2 does; the others are searched while the action runs." in asked


@pytest.mark.usually_on("sqlite")
def test_no_page_changes_anything_by_get(database: str, superuser: Client) -> None:
    one = job()
    fail_jobs(SyncStore(database), one)
    refused = [f"{LIST}action/?do=discard:{one.id}&confirmed=1", f"{LIST}{one.id}/stack/"]
    for url in refused:
        assert superuser.get(url).status_code == 405
    for view in ("", "edit/?args=[]&kwargs={}", "?do=retry"):
        read(superuser, f"{LIST}{one.id}/{view}")
    assert counts(database) == {"failed": 1}
