"""The overview: states, the last hour, queues, processes and what needs attention, as a page and as JSON."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext, override_settings
from django.urls import path

from steady_queue.dashboard import site as dashboard_site
from steady_queue.models import Process, TaskStatistics
from steady_queue.models.pages import Overview, Queue
from steady_queue.monitoring.states import JobState
from steady_queue.monitoring.statistics import read_now
from tests.dashboard.samples import HOSTILE, fill
from tests.support.databases.aliases import pointed_at
from tests.support.store.jobs import failed, job
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from collections.abc import Callable

OVERVIEW = "/admin/steady_queue/overview/"
#: Every page of this part of the dashboard that needs no id.
PAGES = [OVERVIEW, "/admin/steady_queue/queue/", "/admin/steady_queue/process/", "/admin/steady_queue/limit/"]


_NO_SUMS = dict.fromkeys(("failed", "retried", "waits", "wait_milliseconds", "longest_wait_milliseconds"), 0)


def read(client: Client, path: str = OVERVIEW, **headers: str) -> str:
    response = client.get(path, headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def test_the_overview_shows_states_the_last_hour_queues_processes_and_what_needs_attention(
    database: str, superuser: Client
) -> None:
    sample = fill(database)

    with CaptureQueriesContext(connections[database]) as queries:
        page = read(superuser)

    assert len(queries) <= 15
    for state in JobState:
        assert f'href="/admin/steady_queue/job/?state={state}"' in page
    assert "45 finished and 5 failed attempts; at most 10 in a minute" in page
    assert "At most 4.0 s" in page
    assert "50 attempts ended in the last hour, at most 10 in a minute" in page
    assert "the worker" in page
    assert "thread: 8 of 8 in use" in page
    assert f'id="sq-process-{sample.worker}"' in page
    assert "tasks have failed in the last day" in page
    assert "Queue reports is paused" in page
    assert 'class="sq-chart"' in page
    assert 'class="sq-sparkline"' in page


def test_charts_show_the_last_hour_or_the_last_day(database: str, superuser: Client) -> None:
    fill(database)
    name = TaskStatistics.objects.using(database).values_list("queue_name", flat=True)[0]
    now = read_now()
    sums = {"queue_name": name, "task_path": "shop.tasks.send", "started": 7, "finished": 7, "process_id": UUID(int=0)}
    sums |= {"run_milliseconds": 7_000_000, "longest_run_milliseconds": 7_000_000, **_NO_SUMS}
    three_hours_ago = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    TaskStatistics.objects.using(database).create(seconds=3600, starts_at=three_hours_ago, **sums)

    for url in (OVERVIEW, f"/admin/steady_queue/queue/{name}/"):
        with CaptureQueriesContext(connections[database]) as queries:
            hour, day = read(superuser, url), read(superuser, f"{url}?period=day")

        assert len(queries) <= 30
        for page, unit in ((hour, "a minute"), (day, "an hour")):
            assert f"in {unit}, at" in page
        assert "Tasks per minute" in hour
        assert "Tasks per hour" in day
        assert "At most 1 h 56 min" in day
        assert "At most 1 h 56 min" not in hour
        assert '<a href="?period=day" aria-current="true">Last day</a>' in day
        assert '<a href="?period=hour" aria-current="true">Last hour</a>' in read(superuser, f"{url}?period=century")


@pytest.mark.usually_on("sqlite")
def test_every_page_says_when_there_is_nothing_to_see(database: str, superuser: Client) -> None:
    notices = ["Nothing needs attention.", "no task", "No process is registered", "No concurrency limit is in use"]
    for url, notice in zip(PAGES, notices, strict=True):
        assert notice in read(superuser, url)


@pytest.mark.parametrize("language", ["de", "ar"])
@pytest.mark.usually_on("sqlite")
def test_item_166_pages_work_in_any_locale(database: str, superuser: Client, language: str) -> None:
    sample = fill(database)
    details = [f"/admin/steady_queue/process/{sample.worker}/", "/admin/steady_queue/queue/mail/"]

    for url in [*PAGES, *details, "/admin/steady_queue/queue/mail/clear/"]:
        page = read(superuser, url, accept_language=language)
        assert f'<html lang="{language}"' in page
        # Numbers of shapes and links are not localized.
        shapes = re.findall(r' (?:x|y|width|height|d|viewBox)="([^"]*)"', page)
        assert not [shape for shape in shapes if "," in shape or re.search("[\u0660-\u0669]", shape)]


@pytest.mark.usually_on("sqlite")
def test_hostile_names_are_shown_as_text(database: str, superuser: Client) -> None:
    fill(database)

    for url in PAGES:
        page = read(superuser, url)
        assert HOSTILE not in page
        assert "<script>alert" not in page
        assert "\u202e" not in page
        assert "\x1b" not in page
    assert "\\u202egnp" in read(superuser, PAGES[1])


@pytest.mark.usually_on("sqlite")
def test_what_needs_attention_links_to_its_page(database: str, superuser: Client) -> None:
    fill(database)
    sleeper = SyncStore(database).worker("sleeper")
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    Process.objects.using(database).filter(id=sleeper).update(started_at=long_ago, last_heartbeat_at=long_ago)

    page = read(superuser)

    assert re.search(r'<a href="/admin/steady_queue/job/\?state=failed&amp;since=[^"]*">[^<]* failed in the', page)
    assert '<a href="/admin/steady_queue/queue/reports/">Queue reports is paused' in page
    assert f'<a href="/admin/steady_queue/process/{sleeper}/">Process sleeper has sent no heartbeat' in page


@pytest.mark.usually_on("sqlite")
def test_failures_count_since_the_user_marked_them_as_seen_and_to_show_the_page_does_not(
    database: str, superuser: Client, client_with: Callable[..., Client]
) -> None:
    fill(database)
    other = client_with("view_overview")
    for _ in range(2):  # to look at the page does not mark anything
        assert "failed in the last day" in read(superuser)
    assert superuser.get(f"{OVERVIEW}seen/").status_code == 405

    (seen_at,) = re.findall(r'name="seen_at" value="([^"]+)"', read(superuser))
    response = superuser.post(f"{OVERVIEW}seen/", {"seen_at": seen_at}, follow=True)

    assert "The failures that were shown are marked as seen." in response.content.decode()
    assert " failed in the last day" not in read(superuser)
    assert "failed since those marked as seen" not in read(superuser)
    assert "are marked as seen</span>" in read(superuser)
    assert "failed in the last day" in read(other)
    store = SyncStore(database)
    store.enqueue(job(queue_name="later"))
    store.settle(*map(failed, store.claim(store.worker(), queues=["later"])))
    assert "1 task has failed since those marked as seen" in read(superuser)
    # The page with the button did not show the task that has failed since.
    superuser.post(f"{OVERVIEW}seen/", {"seen_at": seen_at})
    assert "1 task has failed since those marked as seen" in read(superuser)
    for seen_at in ("", "x", "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59+00:00"):
        superuser.post(f"{OVERVIEW}seen/", {"seen_at": seen_at})
        assert "failed since those marked as seen" not in read(superuser)
    store.enqueue(job(queue_name="later"))
    store.settle(*map(failed, store.claim(store.worker(), queues=["later"])))
    assert "1 task has failed since those marked as seen" in read(superuser)


@pytest.mark.usually_on("sqlite")
def test_the_overview_is_json_behind_the_same_permission(database: str, client_with: Callable[..., Client]) -> None:
    fill(database)

    response = client_with("view_overview").get(f"{OVERVIEW}json/")

    assert response["Content-Type"] == "application/json"
    assert "no-store" in response["Cache-Control"]
    found: dict[str, Any] = response.json()
    assert found["states"].keys() == set(JobState)
    assert len(found["hour"]) == 60
    assert {queue["name"] for queue in found["queues"]} >= {"mail", "reports", HOSTILE}
    assert found["processes"]
    assert "failed in the last day." in found["attention"][0]["text"]
    assert client_with("view_queue").get(f"{OVERVIEW}json/").status_code == 403
    assert Client().get(f"{OVERVIEW}json/").status_code == 302


@pytest.mark.usually_on("sqlite")
def test_pages_and_json_say_that_the_database_cannot_be_read(unmigrated: str, superuser: Client) -> None:
    with pointed_at(unmigrated):
        for url in PAGES:
            response = superuser.get(url)
            assert response.status_code == 503
            assert "cannot be read" in response.content.decode()
            assert f">python manage.py migrate --database={unmigrated}</pre>" in response.content.decode()
        for url in PAGES[:2]:
            response = superuser.get(f"{url}json/")
            assert response.status_code == 503
            assert response.json().keys() == {"error"}


@pytest.mark.usually_on("sqlite")
def test_pages_work_in_an_admin_site_of_the_project(database: str, superuser: Client) -> None:
    """A site with some of the pages links to those only."""
    site = AdminSite(name="operations")
    for model in (Overview, Queue):
        site.register(model, dashboard_site.PAGES[model])
    urls = ModuleType("urls_of_the_project")
    vars(urls)["urlpatterns"] = [path("operations/", site.urls), path("admin/", admin.site.urls)]
    fill(database)

    with override_settings(ROOT_URLCONF=urls):
        page = read(superuser, "/operations/steady_queue/overview/")

        assert 'href="/operations/steady_queue/queue/mail/"' in page
        assert 'href="/admin/' not in page
        assert "/operations/steady_queue/process/" not in page
        assert read(superuser, "/operations/steady_queue/queue/mail/")


def test_pages_work_in_a_project_without_time_zones(database: str, superuser: Client) -> None:
    sample = fill(database)
    details = [f"/admin/steady_queue/process/{sample.worker}/", "/admin/steady_queue/queue/mail/"]
    tasks = [f"/admin/steady_queue/job/?state={state}" for state in JobState]
    tasks += [f"/admin/steady_queue/job/{new.id}/" for new in sample.states.values()]

    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        for url in [*PAGES, *details, *tasks, "/admin/steady_queue/recurringtask/"]:
            assert read(superuser, url)
