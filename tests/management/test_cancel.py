"""`manage.py steady_queue cancel`: by ids or by a filter, as text or as JSON."""

from __future__ import annotations

import io
import json
import sys
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from tests.support.databases.tables import count, query
from tests.support.store.jobs import fail_jobs, job
from tests.support.store.stores import SyncStore


def cancel(*args: str, **options: Any) -> tuple[str, int]:
    """What the command writes, and its exit status."""
    out = io.StringIO()
    try:
        call_command("steady_queue", "cancel", *args, stdout=out, stderr=out, **options)
    except SystemExit as error:
        return out.getvalue(), int(str(error.code))
    return out.getvalue(), 0


def test_each_id_is_answered_with_what_was_done(database: str) -> None:
    store = SyncStore(database)
    waiting, running, ended, unknown = job(), job(), job(), uuid4()
    fail_jobs(store, ended)
    store.claimed(running)
    store.enqueue(waiting)
    ids = [str(id_) for id_ in (waiting.id, running.id, ended.id, unknown)]
    text, status = cancel(*ids, "--reason", "a mistake", "--by", "Ada")
    assert status == 1
    found = dict(line.split(": ") for line in text.splitlines())
    assert found == dict(zip(ids, ["cancelled", "requested", "already ended", "does not exist"], strict=True))
    assert query(database, "SELECT requested_by, reason FROM steady_queue_cancellation") == [("Ada", "a mistake")]


def test_ids_are_answered_as_json(database: str) -> None:
    store = SyncStore(database)
    new = job()
    store.enqueue(new)
    text, status = cancel(str(new.id), "--json")
    assert (json.loads(text), status) == ({str(new.id): "cancelled"}, 0)


def test_a_filter_cancels_all_tasks_that_match(database: str) -> None:
    store = SyncStore(database)
    store.enqueue(job(queue_name="mail"), job(queue_name="mail"), job())
    assert cancel("--queue", "mail", "--status", "ready,running", "--no-input") == ("2 tasks cancelled\n", 0)
    text, _ = cancel("--status", "ready", "--no-input", "--json")
    assert json.loads(text) == {"count": 1}
    assert count(database, "failedexecution") == 3


def test_a_filter_is_confirmed(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SyncStore(database)
    store.enqueue(job())
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(CommandError, match="--no-input"):
        cancel("--queue", "default")
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    with pytest.raises(CommandError, match="nothing was cancelled"):
        cancel("--queue", "default")
    assert count(database, "readyexecution") == 1
    monkeypatch.setattr("sys.stdin", Terminal("yes\n"))
    assert cancel("--queue", "default") == ("1 task cancelled\n", 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_makes_no_sense_is_refused(database: str) -> None:
    mistakes: dict[str, list[str]] = {
        "either ids": [],
        "can be cancelled": ["--status", "finished", "--no-input"],
        "reason has": [str(uuid4()), "--reason", "x" * 1001],
        "takes either": [str(uuid4()), "--queue", "mail"],
        "--queue has no value": ["--queue", "", "--status", "ready", "--no-input"],
    }
    for message, args in mistakes.items():
        with pytest.raises(CommandError, match=message):
            cancel(*args)
    with pytest.raises(CommandError, match="--reason is an option of 'cancel'"):
        call_command("steady_queue", "health", "--reason", "why")
