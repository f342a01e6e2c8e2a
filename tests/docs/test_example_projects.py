"""The example projects run as their make targets run them: pages, tasks, progress, and a clean end."""

from __future__ import annotations

import functools
import html
import os
import re
import signal
import socket
import subprocess
from typing import TYPE_CHECKING
from urllib.error import HTTPError

import pytest

from tests.docs import example_projects
from tests.docs.example_projects import Project, started
from tests.docs.helpers import EXAMPLES, ROOT, python
from tests.support.processes.printing_process import HOST
from tests.support.servers.host import claim_port

if TYPE_CHECKING:
    from pathlib import Path

#: An order whose last task cannot be enqueued: what is stored of it, and of its other tasks.
ORDER_THAT_FAILS = """
from unittest.mock import patch
import django
from django.core.management import call_command

django.setup()
call_command("migrate", verbosity=0)
from orders import checkout
from orders.models import Order
from steady_queue.models import Job

with patch.object(checkout, "ask_for_review") as review:
    review.using.return_value.enqueue.side_effect = OSError
    try:
        checkout.place(Order(item="lamp", email="ada@example.com"))
    except OSError:
        print(Order.objects.count(), Job.objects.count())
"""

TARGETS = {"shop": "example-django", "chat": "example-asgi"}

pytestmark = pytest.mark.timeout(240)


def assert_nothing_is_left(project: Project) -> None:
    assert project.running() == {}
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, project.port))
    assert project.rows("SELECT job_id FROM steady_queue_claimedexecution") == []
    assert project.rows("SELECT name FROM steady_queue_process") == []


def has_rows(project: Project, statement: str) -> bool:
    return len(project.rows(statement)) > 0


def states(project: Project) -> dict[str, list[tuple[str, str, str]]]:
    """The tasks of each order, as the page shows them: name, state and detail."""
    orders = project.get("orders/").split("<h2>Order ")[1:]
    row = re.compile(r'<tr><td>(\w+)</td><td class="(\w+)">\2</td><td>(.*)</td></tr>')
    return {order.partition(":")[0]: row.findall(order) for order in orders}


def subjects(project: Project) -> list[str]:
    """The subjects of the mails that were printed."""
    return sorted(re.findall(r"^Subject: (.+)$", project.printed, re.MULTILINE))


def test_the_shop_shows_the_tasks_of_an_order_and_exits_cleanly(tmp_path: Path) -> None:
    with started("shop", tmp_path) as shop:
        assert [shop.post(item=item, email="ada@example.com") for item in ("teapot", "unicorn")] == ["/orders/"] * 2

        def is_over() -> bool:
            return {word for tasks in states(shop).values() for _, word, _ in tasks} == {"done", "failed"}

        shop.until(is_over, "tasks to end")
        mail = ("done", "mail sent to ada@example.com")
        assert states(shop) == {
            "1": [
                ("confirm", *mail),
                ("charge", "done", "payment 000001"),
                ("pack", "done", "one parcel"),
                ("ask_for_review", *mail),
            ],
            "2": [
                ("confirm", *mail),
                ("charge", "done", "payment 000002"),
                ("pack", "failed", "orders.tasks.OutOfStockError: no unicorn is left"),
                ("ask_for_review", *mail),
            ],
        }
        about = ("Thank you for order {}", "How do you like it? (order {})")
        sent = sorted(subject.format(number) for subject in about for number in (1, 2))
        # The output of the worker is read by a thread, perhaps later than the state of its task.
        shop.until(lambda: subjects(shop) == sent, "mails to be printed")
        first, second = shop.rows(
            "SELECT started_at, finished_at FROM steady_queue_job WHERE task_path LIKE '%.charge' ORDER BY started_at"
        )
        assert first[1] <= second[0], "the provider was called twice at once"
        early = "SELECT id FROM steady_queue_job WHERE task_path LIKE '%review' AND started_at < scheduled_at"
        assert shop.rows(early) == []

        # A third order, whose tasks are waiting or running when the project is stopped.
        shop.post(item="lamp", email="ada@example.com")
        shop.send_signal(signal.SIGINT)

        assert shop.ended() == 0, shop.printed
        assert_nothing_is_left(shop)
        assert shop.rows("SELECT count(*) FROM steady_queue_job WHERE task_path LIKE 'orders.%'") == [(12,)]


def test_the_shop_has_a_dashboard_with_something_to_see(tmp_path: Path) -> None:
    with started("shop", tmp_path) as shop:
        dashboard = shop.log_in()
        assert dashboard == "/admin/steady_queue/overview/"
        assert "Overview" in shop.get(dashboard)

        seen = {
            "failed": "SELECT 1 FROM steady_queue_failedexecution",
            "scheduled": "SELECT 1 FROM steady_queue_scheduledexecution",
            "blocked": "SELECT 1 FROM steady_queue_blockedexecution",
            "running, with progress": "SELECT 1 FROM steady_queue_job WHERE progress IS NOT NULL",
            "recurring": "SELECT 1 FROM steady_queue_recurringtask",
            "waiting in a paused queue": "SELECT 1 FROM steady_queue_pause",
        }
        for state, statement in seen.items():
            shop.until(functools.partial(has_rows, shop, statement), f"a task that is {state}")


def test_an_order_that_fails_halfway_leaves_no_order_and_no_task(tmp_path: Path) -> None:
    done = python(
        "-c",
        ORDER_THAT_FAILS,
        directory=tmp_path,
        PYTHONPATH=os.pathsep.join(map(str, (ROOT, EXAMPLES / "shop"))),
        DJANGO_SETTINGS_MODULE="settings",
        SHOP_DATABASE=str(tmp_path / "shop.sqlite3"),
    )

    assert (done.returncode, done.stdout) == (0, "0 0\n"), done.stderr


def test_when_one_of_the_shops_programs_dies_the_other_ends_as_well(tmp_path: Path) -> None:
    with started("shop", tmp_path) as shop:
        shop.until(lambda: has_rows(shop, "SELECT id FROM steady_queue_process"), "the worker to start")
        (server,) = [pid for pid, command in shop.running().items() if "runserver" in command]
        subprocess.run(["kill", "-KILL", str(server)], check=True)

        assert shop.ended() == 1
        assert "The web server exited unexpectedly with status -9." in shop.printed
        assert_nothing_is_left(shop)


def test_the_chat_shows_an_answer_while_it_is_written(tmp_path: Path) -> None:
    prompt = '<b>Why</b> & "how"?'
    with started("chat", tmp_path) as chat:
        path = chat.post(prompt=prompt)
        *partial, last = chat.events(f"{path}events/")

        assert last["state"] == "done"
        assert {progress["prompt"] for progress in (*partial, last)} == {prompt}
        assert {progress["state"] for progress in partial} <= {"waiting", "writing"}
        counts = [progress["tokens"] for progress in (*partial, last)]
        assert counts == sorted(counts)
        assert len({count for count in counts if 0 < count < last["tokens"]}) >= 2
        assert all(last["text"].startswith(progress["text"]) for progress in partial)
        # By fives: the database is not asked to store each token.
        assert {progress["tokens"] % 5 for progress in partial} == {0}

        page = chat.get(path)
        assert "<b>" not in page
        assert f"<blockquote>{html.escape(prompt)}</blockquote>" in page
        assert f'<p id="text">{html.escape(last["text"])}</p>' in page
        assert "<script>" not in page
        assert html.escape(prompt) in chat.get("/")

        broken = chat.post(prompt="fail")
        *_, last = chat.events(f"{broken}events/")
        assert last["state"] == "failed"
        assert '<span id="state">failed</span>' in chat.get(broken)
        with pytest.raises(HTTPError, match="404") as missing:
            chat.get("answers/00000000-0000-0000-0000-000000000000/")
        missing.value.close()

        chat.send_signal(signal.SIGINT)
        assert chat.ended() == 0, chat.printed
        assert_nothing_is_left(chat)


def test_the_chat_writes_its_answers_to_the_end_before_it_stops(tmp_path: Path) -> None:
    with started("chat", tmp_path) as chat:
        paths = [chat.post(prompt=f"question {number}") for number in range(3)]
        watched = chat.events(f"{paths[-1]}events/")
        first = next(progress for progress in watched if progress["tokens"] > 0)
        assert first["state"] == "writing"
        chat.send_signal(signal.SIGTERM)
        *_, last = watched

        assert last["state"] == "done"
        assert chat.ended() == 0, chat.printed
        assert_nothing_is_left(chat)
        assert chat.rows("SELECT is_complete, count(*) FROM talk_answer GROUP BY is_complete") == [(1, 3)]
        assert chat.rows("SELECT id FROM steady_queue_job WHERE finished_at IS NULL") == []


@pytest.mark.parametrize(
    ("name", "fields"), [("shop", {"item": "lamp", "email": "ada@example.com"}), ("chat", {"prompt": "Why?"})]
)
def test_a_form_of_another_site_is_refused(tmp_path: Path, name: str, fields: dict[str, str]) -> None:
    with started(name, tmp_path) as project:
        project.get("/")  # for the cookie, which a browser would send along
        with pytest.raises(HTTPError, match="403") as refused:
            project.send(**fields)
        refused.value.close()
        assert project.rows("SELECT id FROM steady_queue_job WHERE task_path NOT LIKE 'stock.%'") == []


@pytest.mark.parametrize("name", TARGETS)
def test_a_port_that_is_in_use_is_reported(tmp_path: Path, name: str) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        done = python(EXAMPLES / "start.py", name, directory=tmp_path, PORT=str(port))

    assert done.returncode == 1
    assert done.stderr == f"Port {port} is already in use. Choose another one: make {TARGETS[name]} PORT=8765\n"


def test_the_tests_start_a_project_on_another_port_if_the_first_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = [claim_port(), first := claim_port()]
    monkeypatch.setattr(example_projects, "claim_port", claims.pop)
    with socket.create_server((HOST, first.port)), started("shop", tmp_path) as shop:
        assert shop.port != first.port
        assert shop.get("/")


@pytest.mark.parametrize("name", TARGETS)
def test_its_make_target_starts_it(name: str) -> None:
    port = 8765
    command = ["make", "--dry-run", "--no-print-directory", "-C", str(ROOT), TARGETS[name], f"PORT={port}"]
    recipe = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert recipe.splitlines()[-1] == f"PORT={port} .venv/bin/python examples/start.py {name}"


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("command", [("check", "--fail-level", "WARNING"), ("makemigrations", "--check", "--dry-run")])
def test_it_is_a_sound_django_project(tmp_path: Path, name: str, command: tuple[str, ...]) -> None:
    database = {f"{name.upper()}_DATABASE": str(tmp_path / "data.sqlite3")}
    done = python(EXAMPLES / name / "manage.py", *command, directory=tmp_path, **database)

    assert (done.returncode, done.stderr) == (0, "")
