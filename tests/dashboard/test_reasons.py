"""The reason of a change: one that cannot be stored is refused by every action, before anything changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry

from steady_queue import actions
from steady_queue.dashboard.audit import REASON_LENGTH
from tests.dashboard.samples import fill
from tests.dashboard.test_action_permissions import TABLES
from tests.dashboard.test_recurring_pages import FIELDS, LIST, filled, put
from tests.support.databases.tables import query
from tests.support.store.jobs import fail_jobs, job
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from django.test import Client

START = "/admin/steady_queue/"
REASONS = {"has 1001 characters": "x" * (REASON_LENGTH + 1), "contains a NUL": "a\x00b"}


def read_rows(alias: str) -> list[list[tuple[object, ...]]]:
    tables = (*TABLES, "failedexecution", "recurringtask")
    return [sorted(query(alias, f"SELECT * FROM steady_queue_{table}"), key=repr) for table in tables]


@pytest.mark.usually_on("sqlite")
def test_a_reason_that_cannot_be_stored_changes_nothing_anywhere(database: str, superuser: Client) -> None:
    fail_jobs(SyncStore(database), failed := job(), edited := job())
    sample = fill(database)
    actions.pause("closed")
    put("key")
    added = {**filled(superuser, f"{LIST}add/", **FIELDS), "save": "1"}
    changed = {**filled(superuser, f"{LIST}edit/?key=key"), "key": "key", "save": "1", "schedule": "0 1 * * *"}
    forms: dict[str, dict[str, str]] = {
        "queue/mail/pause/": {},
        "queue/closed/resume/": {"next": "list"},
        "queue/mail/clear/": {"as_of": datetime.now(UTC).isoformat()},
        f"process/{sample.worker}/stop/": {},
        "job/action/": {"do": f"retry:{failed.id}", "confirmed": "1"},
        f"job/{edited.id}/edit/": {**filled(superuser, f"{START}job/{edited.id}/edit/"), "args": "[]", "kwargs": "{}"},
        "recurringtask/run/": {"key": "key"},
        "recurringtask/edit/": changed,
        "recurringtask/switch/": {"key": "key", "on": "0"},
        "recurringtask/add/": added,
        "recurringtask/delete/": {"key": "key"},
    }
    before = read_rows(database)

    for path, fields in forms.items():
        for problem, reason in REASONS.items():
            response = superuser.post(f"{START}{path}", {**fields, "reason": reason}, follow=True)
            assert f"Nothing was changed: the reason {problem}" in response.content.decode(), path
            assert read_rows(database) == before, path
    assert not LogEntry.objects.exists()

    for path, fields in forms.items():
        response = superuser.post(f"{START}{path}", {**fields, "reason": "x" * REASON_LENGTH}, follow=True)
        assert read_rows(database) != before, path
        before = read_rows(database)
    messages = LogEntry.objects.values_list("change_message", flat=True)
    assert len(messages) == len(forms)
    assert all(message.endswith(f" Reason: {'x' * REASON_LENGTH}") for message in messages)
