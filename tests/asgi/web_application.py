"""A web application whose server also runs its tasks, as tests start it:
`uvicorn tests.asgi.web_application:application`.

It writes a short line to a file for each thing it does: several server processes append to the same file.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpResponse
from django.urls import path

import steady_queue
from steady_queue import task
from steady_queue.aio.maintenance.maintenance import Maintenance
from steady_queue.asgi import SteadyQueue
from steady_queue.configuration import Options, Worker

if TYPE_CHECKING:
    from django.http import HttpRequest

    from steady_queue.jobs.compat import Task

#: The database, the queue that it enqueues to, and how long a process counts as alive after its last heartbeat.
DATABASE, QUEUE, ALIVE = "STEADY_QUEUE_WEB_DATABASE", "STEADY_QUEUE_WEB_QUEUE", "STEADY_QUEUE_WEB_ALIVE"
#: The file that it writes. The test creates a file named "gate" in the same directory when tasks may end.
FILE = "STEADY_QUEUE_WEB_FILE"

settings.ROOT_URLCONF = __name__
settings.ALLOWED_HOSTS = ["*"]
steady_queue.database = os.environ.get(DATABASE, "sqlite")
# Longer than any test: tasks have all the time they need to finish on a busy machine.
steady_queue.shutdown_timeout = timedelta(seconds=60)
steady_queue.process_alive_threshold = timedelta(seconds=float(os.environ.get(ALIVE, "300")))
steady_queue.process_heartbeat_interval = steady_queue.process_alive_threshold / 10

django_application = get_asgi_application()
application = SteadyQueue(django_application, Options(workers=[Worker(queues=["default"])]), ready_within=2)

_file = os.open(os.environ[FILE], os.O_CREAT | os.O_APPEND | os.O_WRONLY) if FILE in os.environ else -1


def note(what: str, number: int) -> None:
    """Write a line. A short append is never torn."""
    os.write(_file, f"{what} {number} {os.getpid()}\n".encode())


def _is_open() -> bool:
    return Path(os.environ[FILE]).with_name("gate").exists()


@task
async def step(number: int) -> None:
    note("ran", number)
    await asyncio.sleep(0.02)


@task
async def awaits(number: int) -> None:
    """Run until the gate is open."""
    note("began", number)
    while not _is_open():  # noqa: ASYNC110, another process opens it
        await asyncio.sleep(0.01)
    note("ran", number)


@task
def blocks(number: int) -> None:
    """The same in a thread."""
    note("began", number)
    while not _is_open():
        time.sleep(0.01)
    note("ran", number)


TASKS: dict[str, Task[..., Any]] = {"step": step, "awaits": awaits, "blocks": blocks}


async def enqueue(request: HttpRequest, name: str, number: int) -> HttpResponse:
    result = await TASKS[name].using(queue_name=os.environ.get(QUEUE, "default")).aenqueue(number)
    return HttpResponse(result.id)


async def hello(request: HttpRequest) -> HttpResponse:
    await asyncio.sleep(0)
    return HttpResponse("hello")


_is_broken, _is_shutting_down = asyncio.Event(), asyncio.Event()


async def break_queue(request: HttpRequest) -> HttpResponse:
    """Let a service of the runtime fail, and respond when the server shuts down because of it."""
    _is_broken.set()
    await _is_shutting_down.wait()
    return HttpResponse("broken")


class _ShutdownHandler(logging.Handler):
    """Notes the message with which uvicorn begins to shut down, before it waits for its requests."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "Shutting down":
            _is_shutting_down.set()


async def _maintain(self: Maintenance) -> None:
    await _is_broken.wait()
    raise LookupError("a fault of ours")


if "STEADY_QUEUE_WEB_BREAKS" in os.environ:
    Maintenance.run = _maintain  # type: ignore[method-assign]
    logging.getLogger("uvicorn.error").addHandler(_ShutdownHandler())

urlpatterns = [
    path("enqueue/<name>/<int:number>", enqueue),
    path("hello", hello),
    path("break", break_queue),
]
