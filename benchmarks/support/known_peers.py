"""The other queues that can be measured: their packages, and the queries that show that their jobs are finished."""

from __future__ import annotations

import subprocess
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.support.systems import Peer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.support.rounds import Context


#: For a peer whose package has the same name as this project's.
ALWAYS = "because its package is also called steady_queue"


class KnownPeer(NamedTuple):
    """Another queue, which may be installed in this environment or in another one."""

    title: str
    package: str
    script: str
    #: The number of jobs of one run; a slow queue has fewer.
    jobs: int
    #: Two queries: one selects a row while a job is unfinished, one counts the finished jobs.
    unfinished: str
    count_finished: str
    #: In which case it needs an environment of its own.
    needs_own_environment: str = ""
    #: Options of its script.
    options: Mapping[str, Any] = MappingProxyType({})


PEERS = {
    "pgqueuer": KnownPeer(
        "PgQueuer",
        "pgqueuer",
        "pgqueuer_worker.py",
        20_000,
        "SELECT 1 FROM pgqueuer LIMIT 1",
        "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'",
        options={"batch_size": 250, "concurrency": 500},
    ),
    "oban": KnownPeer(
        "Oban",
        "oban",
        "oban_worker.py",
        5_000,
        "SELECT 1 FROM oban_jobs WHERE state <> 'completed' LIMIT 1",
        "SELECT count(*) FROM oban_jobs WHERE state = 'completed'",
        needs_own_environment="if this Python is older than 3.12",
    ),
    "procrastinate": KnownPeer(
        "Procrastinate",
        "procrastinate",
        "procrastinate_worker.py",
        2_000,
        "SELECT 1 FROM procrastinate_jobs WHERE status <> 'succeeded' LIMIT 1",
        "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
    ),
    "upstream": KnownPeer(
        "steady-queue upstream",
        "steady-queue",
        "django_worker.py",
        1_000,
        "SELECT 1 FROM steady_queue_job WHERE finished_at IS NULL LIMIT 1",
        "SELECT count(*) FROM steady_queue_job WHERE finished_at IS NOT NULL",
        needs_own_environment=ALWAYS,
        options={
            "apps": ["steady_queue"],
            "backend": "steady_queue.backend.SteadyQueueBackend",
            "command": ["steady_queue"],
            "threads": 8,
        },
    ),
    "django-tasks-db": KnownPeer(
        "django-tasks-db",
        "django-tasks-db",
        "django_worker.py",
        1_000,
        "SELECT 1 FROM django_tasks_database_dbtaskresult WHERE status <> 'SUCCESSFUL' LIMIT 1",
        "SELECT count(*) FROM django_tasks_database_dbtaskresult WHERE status = 'SUCCESSFUL'",
        options={
            "apps": ["django_tasks_db"],
            "backend": "django_tasks_db.DatabaseBackend",
            "command": ["db_worker", "--interval", "0.1", "--no-startup-delay"],
            "threads": 0,
        },
    ),
}
#: PgQueuer is measured in the section "throughput".
WITHOUT_TARGET = tuple(name for name in PEERS if name != "pgqueuer")


def find_peer(name: str, context: Context, jobs: int = 0) -> Peer | None:
    """The peer as a system to measure; if it is not installed, None, and a line that explains how to install it."""
    known = PEERS[name]
    python = context.pythons.get(name, sys.executable)
    is_here = name in context.pythons or known.needs_own_environment != ALWAYS
    version = _version(python, known.package) if is_here else None
    if version is None:
        context.figures.print_line(explain_installation(name))
        return None
    peer = Peer(
        f"{known.title} {version}",
        jobs or context.reduce(known.jobs),
        known.script,
        context.postgres,
        unfinished=known.unfinished,
        count_finished=known.count_finished,
        python=python,
    )
    peer.extra_options = dict(known.options)
    return peer


def find_pgqueuer(context: Context, jobs: int) -> list[Peer]:
    """PgQueuer, the fastest peer, with two configurations: it depends on the machine which of the two is faster."""
    peers = []
    for batch_size, concurrency in ((250, 500), (500, None)):
        if (peer := find_peer("pgqueuer", context, jobs)) is None:
            return []
        peer.label += f", batches of {batch_size}, {concurrency or 'unlimited'} at once"
        peer.extra_options = {"batch_size": batch_size, "concurrency": concurrency}
        peers.append(peer)
    return peers


def explain_installation(name: str) -> str:
    known = PEERS[name]
    line = f"{known.title} is not installed and was not measured. To install it: pip install {known.package}."
    if known.needs_own_environment:
        line += (
            f" It needs its own environment {known.needs_own_environment};"
            f" pass its interpreter as --python {name}=PATH."
        )
    return line


def _version(python: str, package: str) -> str | None:
    """The installed version of the package for this interpreter, or None."""
    answer = subprocess.run(
        [python, "-I", "-c", f"from importlib.metadata import version; print(version({package!r}))"],
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip() if answer.returncode == 0 else None
