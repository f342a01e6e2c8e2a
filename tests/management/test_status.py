"""`manage.py steady_queue status`, `queues` and `processes`: the queue in a terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.core.management import CommandError

from steady_queue import actions
from steady_queue.models import Process
from steady_queue.monitoring.queue_list import MAX_QUEUES
from steady_queue.monitoring.usage import LOOKED_UP
from tests.management.shell import Terminal, shell
from tests.support.databases.tables import count, query
from tests.support.processes.commands import MANAGE
from tests.support.processes.scripts import REPOSITORY
from tests.support.processes.terminals import on_a_terminal
from tests.support.store.jobs import fail_jobs, job
from tests.support.store.stores import SyncStore
from tests.support.wait import WAIT_TIMEOUT_SECONDS, in_thread, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.processes.terminals import Screen


def test_the_status_shows_states_queues_processes_and_what_needs_attention(database: str) -> None:
    store = SyncStore(database)
    fail_jobs(store, job())
    store.enqueue(job(queue_name="mail"), job(queue_name="mail"))
    actions.pause("mail")
    ran = shell("status")
    assert ran.status == 0
    assert "failed 1 " in ran.out
    assert "Last hour [" in ran.out
    assert re.search(r"^mail +2 .* paused", ran.out, re.MULTILINE)
    assert "Queue mail is paused: 2 tasks wait" in ran.out
    found = shell("status", "--json").json
    assert found["states"]["failed"] == {"count": 1, "is_capped": False}
    assert {"now", "states", "hour", "queues", "processes", "attention", "tasks"} == set(found)


@pytest.mark.usually_on("sqlite")
def test_queues_are_listed_paused_resumed_and_cleared(database: str) -> None:
    SyncStore(database).enqueue(job(queue_name="mail"), job(queue_name="ma\x1bil"))
    assert "ma\\x1bil" in shell("queues").out
    assert shell("queues", "mail", "--pause").out == "mail is paused\n"
    assert shell("queues", "mail", "--pause").out == "mail was already paused\n"
    assert shell("queues", "mail", "--json").json["queues"]["mail"]["is_paused"]
    assert shell("queues", "mail", "--resume", "--json").json == {
        "action": "resume",
        "queues": {"mail": {"changed": True}},
    }
    assert shell("queues", "mail", "--clear", "--yes").out == "mail: 1 task deleted\n"
    ran = shell("queues", "nowhere")
    assert ran.status == 1
    assert "nowhere: not known" in ran.err
    assert count(database, "readyexecution") == 1
    for words, message in {
        ("--clear",): "--clear needs the names",
        ("mail", "--clear", "--pause"): "only one of --pause, --clear",
        ("mail*", "--pause"): "mail",
    }.items():
        with pytest.raises(CommandError, match=message):
            shell("queues", *words)


@pytest.mark.usually_on("sqlite")
def test_a_number_of_running_tasks_that_was_estimated_is_marked(database: str) -> None:
    store = SyncStore(database)
    store.claimed(*(job(queue_name="mail") for _ in range(LOOKED_UP)))
    assert re.search(rf"^mail .* {LOOKED_UP:,} ", shell("queues").out, re.MULTILINE)
    assert "about" not in shell("queues").out
    store.claimed(job(queue_name="mail"))
    assert re.search(rf"^mail .* about {LOOKED_UP + 1:,} ", shell("queues").out, re.MULTILINE)


@pytest.mark.usually_on("sqlite")
def test_tasks_that_are_enqueued_after_the_question_are_not_cleared(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SyncStore(database)
    store.enqueue(job(queue_name="mail"), job(queue_name="mail"), job(queue_name="other"))

    class SlowAnswer(Terminal):
        """Another task is enqueued before somebody answers."""

        def isatty(self) -> bool:
            store.enqueue(job(queue_name="mail"))
            return True

    monkeypatch.setattr("sys.stdin", SlowAnswer("y\n"))
    assert shell("queues", "mail", "empty", "--clear").out == "mail: 2 tasks deleted\nempty: 0 tasks deleted\n"
    ready = dict(query(database, "SELECT queue_name, COUNT(*) FROM steady_queue_readyexecution GROUP BY queue_name"))
    assert ready == {"mail": 1, "other": 1}
    with pytest.raises(CommandError, match="the name of the queue is empty"):
        shell("queues", "", "--clear", "--yes")
    with pytest.raises(CommandError, match="has 256 characters"):
        shell("queues", "x" * 256, "--clear", "--yes")


@pytest.mark.usually_on("sqlite")
def test_a_queue_is_found_by_its_name_also_if_the_list_is_full(database: str) -> None:
    SyncStore(database).enqueue(*(job(queue_name=f"queue {number:03}") for number in range(MAX_QUEUES + 5)))
    assert not shell("queues", "--json").json["is_complete"]
    last = f"queue {MAX_QUEUES + 4:03}"
    ran = shell("queues", last, "queue 000", "--json")
    assert (ran.status, ran.err) == (0, "")
    assert (list(ran.json["queues"]), ran.json["is_complete"]) == (["queue 000", last], True)
    names = [f"queue {number:03}" for number in range(MAX_QUEUES)]
    assert shell("queues", *names, "--json").json["is_complete"]
    ran = shell("queues", "x" * 256)
    assert ran.status == 1
    assert "not known" in ran.err


@pytest.mark.usually_on("sqlite")
def test_processes_are_listed_shown_and_asked_to_stop(database: str) -> None:
    store = SyncStore(database)
    running = job()
    store.claimed(running)
    (listed,) = shell("processes", "--json").json["processes"]
    assert listed["name"] in shell("processes").out
    text = shell("processes", listed["name"]).out
    assert str(running.id) in text
    assert listed["id"] in text
    shown = shell("processes", listed["id"], "--json").json["processes"][0]
    assert [one["id"] for one in shown["running_jobs"]] == [str(running.id)]
    unknown = str(uuid4())
    ran = shell("processes", listed["id"], unknown, "--stop", "--by", "Ada", "--yes")
    assert ran.status == 1
    assert ran.out == f"{listed['name']} is asked to stop: it ends when its running tasks have ended\n"
    assert ran.err == f"{unknown}: there is no such process: it has stopped, or was pruned\n"
    assert query(database, "SELECT requested_by FROM steady_queue_processrequest") == [("Ada",)]
    with pytest.raises(CommandError, match="--stop needs"):
        shell("processes", "--stop")


@pytest.mark.usually_on("sqlite")
def test_a_process_that_is_considered_dead_is_not_asked_to_stop(database: str) -> None:
    store = SyncStore(database)
    store.worker("alive")
    dead = store.worker("dead \x1b")
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    Process.objects.using(database).filter(id=dead).update(last_heartbeat_at=long_ago)

    ran = shell("processes", str(dead), "alive", "--stop", "--yes")

    assert ran.status == 1
    assert ran.out == "alive is asked to stop: it ends when its running tasks have ended\n"
    assert ran.err.startswith("dead \\x1b has sent no heartbeat for 1 h and is considered dead: it was not asked")
    assert count(database, "processrequest") == 1
    ran = shell("processes", str(dead), "--stop", "--json")  # there is nothing to ask about
    assert (ran.status, ran.json["stopped"], ran.json["dead"]) == (1, [], ["dead \x1b"])
    assert count(database, "processrequest") == 1


# -- as processes -----------------------------------------------------------------------------------------------------


def environment(**more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "DJANGO_COLORS")}
    return {**inherited, "TERM": "xterm", "PYTHONPATH": str(REPOSITORY), **more}


def manage(alias: str, *words: str, setup: str = "") -> list[str]:
    text = MANAGE.format(alias=alias, alive=300, shutdown_timeout_seconds=1, setup=setup)
    return [sys.executable, "-c", text, *words]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command whose output cannot have other characters than those of ASCII."""
    environ = environment(PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    return subprocess.run(
        command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=WAIT_TIMEOUT_SECONDS
    )


@contextmanager
def watching(alias: str, columns: int, **environ: str) -> Iterator[tuple[subprocess.Popen[bytes], Screen]]:
    command = manage(alias, "status", "--watch")
    with on_a_terminal(command, cwd=REPOSITORY, environ=environment(**environ), columns=columns) as found:
        yield found


@pytest.mark.anyio
@pytest.mark.usually_on("sqlite")
async def test_the_status_is_redrawn_until_ctrl_c_and_fits_the_terminal(database: str) -> None:
    store = SyncStore(database)
    with watching(database, 60) as (process, screen):
        await until(lambda: "ready 0" in screen.text, "it shows nothing")
        await in_thread(store.enqueue, job(), job())
        await until(lambda: "ready 2" in screen.text, "it is not drawn again")
        assert "\x1b[1m" in screen.text
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_TIMEOUT_SECONDS) == 0
    drawn = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", screen.text)
    assert max(map(len, drawn.splitlines())) <= 60
    assert "Traceback" not in drawn


@pytest.mark.anyio
@pytest.mark.usually_on("sqlite")
async def test_the_status_has_no_colours_with_no_color(database: str) -> None:
    with watching(database, 100, NO_COLOR="1") as (process, screen):
        await until(lambda: "attention" in screen.text, "it shows nothing")
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_TIMEOUT_SECONDS) == 0
    assert re.findall(r"\x1b\[[\d;]*m", screen.text) == []


@pytest.mark.usually_on("sqlite")
def test_watching_needs_a_terminal(database: str) -> None:
    with pytest.raises(CommandError, match="needs a terminal"):
        shell("status", "--watch")


@pytest.mark.only_on("sqlite")
def test_without_a_database_the_problem_is_said_without_a_traceback(database: str) -> None:
    away = "import tests.settings\ntests.settings.DATABASES['sqlite']['NAME'] = '/no/such/directory/db.sqlite3'"
    done = run(manage(database, "status", setup=away))
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "unable to open database file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usually_on("sqlite")
def test_a_terminal_without_unicode_shows_other_characters(database: str) -> None:
    SyncStore(database).enqueue(job(queue_name="mäil"))
    done = run(manage(database, "queues"))
    assert done.returncode == 0, done.stderr
    assert "m\\xe4il" in done.stdout
