"""The peers: what each is called, how it is started, and how its database says that all is done."""

from __future__ import annotations

import subprocess
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.contenders import Peer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.scene import Scene


#: It has our package's name.
ALWAYS = "always"


class Known(NamedTuple):
    """A peer that may be installed, here or in another environment."""

    title: str
    package: str
    script: str
    #: Tasks of one run, by its speed.
    jobs: int
    #: Selects a row while anything is left to do; counts what was done.
    left: str
    done: str
    #: When it needs an environment of its own.
    apart: str = ""
    #: Orders that only its script understands.
    orders: Mapping[str, Any] = MappingProxyType({})


PEERS = {
    "pgqueuer": Known(
        "PgQueuer",
        "pgqueuer",
        "pgqueuer_worker.py",
        20_000,
        "SELECT 1 FROM pgqueuer LIMIT 1",
        "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'",
        orders={"batch": 250, "most": 500},
    ),
    "oban": Known(
        "Oban",
        "oban",
        "oban_worker.py",
        5_000,
        "SELECT 1 FROM oban_jobs WHERE state <> 'completed' LIMIT 1",
        "SELECT count(*) FROM oban_jobs WHERE state = 'completed'",
        apart="if this Python is older than 3.12",
    ),
    "procrastinate": Known(
        "Procrastinate",
        "procrastinate",
        "procrastinate_worker.py",
        2_000,
        "SELECT 1 FROM procrastinate_jobs WHERE status <> 'succeeded' LIMIT 1",
        "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
    ),
    "upstream": Known(
        "steady-queue upstream",
        "steady-queue",
        "django_worker.py",
        1_000,
        "SELECT 1 FROM steady_queue_job WHERE finished_at IS NULL LIMIT 1",
        "SELECT count(*) FROM steady_queue_job WHERE finished_at IS NOT NULL",
        apart=ALWAYS,
        orders={
            "apps": ["steady_queue"],
            "backend": "steady_queue.backend.SteadyQueueBackend",
            "command": ["steady_queue"],
            "threads": 8,
        },
    ),
    "django-tasks-db": Known(
        "django-tasks-db",
        "django-tasks-db",
        "django_worker.py",
        1_000,
        "SELECT 1 FROM django_tasks_database_dbtaskresult WHERE status <> 'SUCCESSFUL' LIMIT 1",
        "SELECT count(*) FROM django_tasks_database_dbtaskresult WHERE status = 'SUCCESSFUL'",
        orders={
            "apps": ["django_tasks_db"],
            "backend": "django_tasks_db.DatabaseBackend",
            "command": ["db_worker", "--interval", "0.1", "--no-startup-delay"],
            "threads": 0,
        },
    ),
}
#: All but the one that ours is raced against.
OTHERS = tuple(name for name in PEERS if name != "pgqueuer")


def find(name: str, scene: Scene, jobs: int = 0) -> Peer | None:
    """The peer as a contender; when it is not installed, a line says how to install it."""
    known = PEERS[name]
    python = scene.pythons.get(name, sys.executable)
    version = None if known.apart == ALWAYS and name not in scene.pythons else _version(python, known.package)
    if version is None:
        scene.figures.say(how_to_install(name))
        return None
    peer = Peer(
        f"{known.title} {version}",
        jobs or scene.few(known.jobs),
        known.script,
        scene.postgres,
        left=known.left,
        done=known.done,
        python=python,
    )
    peer.more = dict(known.orders)
    return peer


def rivals(scene: Scene, jobs: int) -> list[Peer]:
    """The fastest peer in both settings that may be its best: which one is depends on the machine."""
    found = []
    for batch, most in ((250, 500), (500, None)):
        if (peer := find("pgqueuer", scene, jobs)) is None:
            return []
        peer.label += f", batches of {batch}, {f'{most} at once' if most else 'no cap'}"
        peer.more = {"batch": batch, "most": most}
        found.append(peer)
    return found


def how_to_install(name: str) -> str:
    known = PEERS[name]
    line = f"{known.title} is not installed, so it was not measured: pip install {known.package}"
    if known.apart:
        line += f"; {known.apart}, in an environment of its own, and --python {name}=PATH names its interpreter"
    return line


def _version(python: str, package: str) -> str | None:
    """The installed version, as that interpreter knows it."""
    asked = subprocess.run(
        [python, "-I", "-c", f"from importlib.metadata import version; print(version({package!r}))"],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() if asked.returncode == 0 else None
