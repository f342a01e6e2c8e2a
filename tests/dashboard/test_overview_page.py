"""The overview: states, the last hour, queues, processes and what needs attention, as a page and as JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from steady_queue.monitoring.states import JobState
from tests.dashboard.samples import HOSTILE, fill

if TYPE_CHECKING:
    from django.test import Client

OVERVIEW = "/admin/steady_queue/overview/"
#: Every page of this part of the dashboard that needs no id.
PAGES = [OVERVIEW, "/admin/steady_queue/queue/", "/admin/steady_queue/process/", "/admin/steady_queue/limit/"]


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
        assert f'<span class="sq-label">{state}</span>' in page
    assert "45 finished and 5 failed; at most 10 in a minute" in page
    assert "At most 4.0 s" in page
    assert "50 tasks ended in the last hour, at most 10 in a minute" in page
    assert "the worker" in page
    assert "thread: 8 of 8 in use" in page
    assert f'id="sq-process-{sample.worker}"' in page
    assert "tasks have failed since you last looked" in page
    assert "Queue reports is paused" in page
    assert 'class="sq-chart"' in page
    assert 'class="sq-sparkline"' in page


@pytest.mark.usually_on("sqlite")
def test_every_page_says_when_there_is_nothing_to_see(database: str, superuser: Client) -> None:
    notices = ["Nothing needs attention.", "no task", "No process is registered", "No concurrency limit is in use"]
    for path, notice in zip(PAGES, notices, strict=True):
        assert notice in read(superuser, path)


@pytest.mark.parametrize("language", ["de", "ar"])
@pytest.mark.usually_on("sqlite")
def test_pages_work_in_any_locale(database: str, superuser: Client, language: str) -> None:
    sample = fill(database)
    details = [f"/admin/steady_queue/process/{sample.worker}/", "/admin/steady_queue/queue/mail/"]

    for path in [*PAGES, *details, "/admin/steady_queue/queue/mail/clear/"]:
        page = read(superuser, path, accept_language=language)
        assert f'<html lang="{language}"' in page
        # Numbers of shapes and links are not localized.
        shapes = re.findall(r' (?:x|y|width|height|d|viewBox)="([^"]*)"', page)
        assert not [shape for shape in shapes if "," in shape or re.search("[\u0660-\u0669]", shape)]


@pytest.mark.usually_on("sqlite")
def test_hostile_names_are_shown_as_text(database: str, superuser: Client) -> None:
    fill(database)

    for path in PAGES:
        page = read(superuser, path)
        assert HOSTILE not in page
        assert "<script>alert" not in page
        assert "\u202e" not in page
        assert "\x1b" not in page
    assert "\\u202egnp" in read(superuser, PAGES[1])
