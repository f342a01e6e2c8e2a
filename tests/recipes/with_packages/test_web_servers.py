"""Web servers that only enqueue, and a worker apart from them."""

from __future__ import annotations

import shlex
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from tests.docs.helpers import environment
from tests.recipes.projects import section_of
from tests.support.servers import wait_until
from tests.support.servers.host import claim_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.recipes.projects import Project

VIEWS = """
from django.http import HttpResponse
from shop.tasks import note

def hello(request):
    return HttpResponse("hello")

def enqueue(request):
    return HttpResponse(note.enqueue("sync").id)

async def aenqueue(request):
    return HttpResponse((await note.aenqueue("async")).id)
"""
TASKS = """
from steady_queue import task

@task
def note(view):
    with open("notes", "a") as file:
        file.write(f"{view}\\n")
"""
URLS = """
from django.urls import path
from shop import views
urlpatterns = [path("hello/", views.hello), path("sync/", views.enqueue), path("async/", views.aenqueue)]
"""
SETTINGS = 'DATABASES["default"]["OPTIONS"] = {"transaction_mode": "IMMEDIATE", "timeout": 60}'
#: How the test gives each server its address.
ADDRESS = {"gunicorn": "--bind=127.0.0.1:{}", "uvicorn": "--port={}"}


@contextmanager
def serving(project: Project, command: list[str]) -> Iterator[str]:
    """Run the command of the recipe with two processes; return the address."""
    with claim_port() as claim:
        arguments = [*command[1:], ADDRESS[command[0]].format(claim.port), "--workers", "2"]
        with subprocess.Popen(
            [project.python, "-m", command[0], *arguments],
            cwd=project.directory,
            env=environment(project.directory),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as server:
            try:
                yield f"http://127.0.0.1:{claim.port}"
                server.send_signal(signal.SIGTERM)
                _, log = server.communicate(timeout=50)
            finally:
                server.kill()
    assert "Traceback" not in log, log


def answers(address: str) -> bool:
    try:
        return bool(urlopen(f"{address}/hello/", timeout=50).read())
    except OSError:
        return False


@pytest.mark.parametrize("server", ["gunicorn", "uvicorn"])
def test_tasks_of_a_web_server_run_in_the_worker(project: Project, server: str) -> None:
    lines = section_of("gunicorn and uvicorn").splitlines()
    (command,) = [shlex.split(line, comments=True) for line in lines if line.startswith(f"{server} ")]
    for path, text in {"shop/views.py": VIEWS, "shop/tasks.py": TASKS, "project/urls.py": URLS}.items():
        project.append(path, text)
    project.append("project/settings.py", SETTINGS)
    project.manage("migrate", "steady_queue")

    with serving(project, command) as address:
        wait_until(lambda: answers(address), "the server answers", 60)
        assert urlopen(f"{address}/sync/", timeout=50).read()
        for _ in range(4):
            assert urlopen(f"{address}/async/", timeout=50).read()

    project.drain()
    assert sorted((project.directory / "notes").read_text().split()) == [*["async"] * 4, "sync"]
