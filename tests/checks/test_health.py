"""Health: derived from what the processes of this machine stored in the database, in bounded time."""

from __future__ import annotations

import json
import os
import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.test import override_settings

import steady_queue
from steady_queue.aio.process_identity import describe, hostname
from steady_queue.checks.health import check_health, default_max_age
from steady_queue.configuration import Options, Worker
from steady_queue.store.operations.processes.registration import NewProcess, heartbeat, register
from tests.support.databases.aliases import extra_database, twin_settings
from tests.support.databases.tables import query
from tests.support.processes.scripts import run_script
from tests.support.servers.host import free_port
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from uuid import UUID

pytestmark = pytest.mark.usually_on("postgres", "sqlite")

NONE_HERE = ["no process of Steady Queue is registered on this machine"]


def registered(alias: str, *, polled_ago: float | None = None, **changes: Any) -> UUID:
    """A process of this machine, as this very one would describe itself."""
    store = SyncStore(alias)
    made = NewProcess(uuid4(), "process", "me", os.getpid(), hostname(), None, describe([]))._replace(**changes)
    store.run(register(store.sql, made))
    store.run(heartbeat(store.sql, made.id, polled_ago))
    return made.id


def described(**changes: str) -> str:
    return json.dumps({**json.loads(describe([])), **changes})


def test_a_machine_without_processes_is_unhealthy(database: str) -> None:
    found = check_health()
    assert (found.healthy, found.lines) == (False, NONE_HERE)


def test_a_process_that_polled_lately_is_healthy(database: str) -> None:
    registered(database, polled_ago=3.4)
    found = check_health()
    assert found.healthy
    assert found.lines in (["me: polled 3 s ago"], ["me: polled 4 s ago"])


def test_a_process_that_has_not_polled_yet_is_starting(database: str) -> None:
    registered(database)
    found = check_health()
    assert (found.healthy, found.lines) == (False, ["me: starting"])


def test_a_process_that_polled_too_long_ago_is_unhealthy(database: str) -> None:
    registered(database, polled_ago=1000)
    found = check_health()
    assert (found.healthy, found.lines) == (False, ["me: polled 1000 s ago, longer than 131 s"])
    assert check_health(max_age=timedelta(seconds=2000)).healthy
    assert not check_health(max_age=timedelta(0)).healthy


def test_a_process_without_a_recent_heartbeat_is_unhealthy(database: str) -> None:
    registered(database, polled_ago=1)
    query(database, "UPDATE steady_queue_process SET last_heartbeat_at = '2001-01-01 00:00:00'")
    found = check_health()
    assert not found.healthy
    assert found.lines[0].startswith("me: no heartbeat for ")


def test_one_that_is_not_well_makes_the_machine_unhealthy(database: str) -> None:
    registered(database, polled_ago=1, name="one")
    registered(database, polled_ago=1000, name="two")
    found = check_health()
    assert not found.healthy
    assert [line.partition(":")[0] for line in found.lines] == ["one", "two"]


def test_a_supervisor_with_a_vacant_post_makes_the_machine_unhealthy_until_it_is_filled(database: str) -> None:
    metadata = describe([{"kind": "supervisor", "processes": 2}])
    supervisor = registered(database, kind="supervisor", name="chief", metadata=metadata)
    registered(database, polled_ago=1, supervisor_id=supervisor)
    registered(database, polled_ago=1, name="of another")
    found = check_health()
    assert not found.healthy
    assert found.lines[-1] == "chief: 1 of its 2 processes are missing"
    registered(database, polled_ago=1, supervisor_id=supervisor)
    found = check_health()
    assert found.healthy
    assert len(found.lines) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "supervisor"},
        {"hostname": "elsewhere"},
        {"metadata": described(boot="another")},
        {"metadata": described(namespace="pid:[1]")},
        {"metadata": described(started="1")},
        {"pid": 2**22 + 1},
    ],
    ids=["supervisor", "another host", "another boot", "another container", "another of this pid", "gone"],
)
def test_others_do_not_count(database: str, changes: dict[str, Any]) -> None:
    registered(database, **changes)
    assert check_health().lines == NONE_HERE
    registered(database, polled_ago=1)
    assert check_health().healthy


@pytest.mark.parametrize("metadata", ["", "{}", "[]", "null", "nonsense"])
def test_a_process_without_a_machine_id_is_matched_by_its_host_name(database: str, metadata: str) -> None:
    registered(database, polled_ago=1, metadata=metadata)
    assert check_health().healthy


@pytest.mark.only_on("postgres", "mariadb")
def test_an_unavailable_database_is_a_reason(database: str) -> None:
    settings = twin_settings(database, HOST="127.0.0.1", PORT=free_port())
    with extra_database(f"{database}_nowhere", settings) as alias:
        found = check_health(alias=alias)
    assert not found.healthy
    assert found.lines[0].startswith(f"the database '{alias}' cannot be queried: ")
    assert str(settings["PASSWORD"] or "xyzzy") not in found.lines[0]


@pytest.mark.only_on("postgres", "mariadb")
def test_a_database_that_does_not_answer_is_a_reason_in_bounded_time(database: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = twin_settings(database, HOST="127.0.0.1", PORT=silent.getsockname()[1])
        with extra_database(f"{database}_silent", settings) as alias:
            found = check_health(alias=alias, timeout_seconds=0.3)
    assert (found.healthy, found.lines) == (
        False,
        [f"the database '{alias}' cannot be queried: no reply within 0.3 s"],
    )


def test_a_database_without_the_tables_is_a_reason(unmigrated: str) -> None:
    found = check_health(alias=unmigrated)
    assert not found.healthy
    assert f"run: python manage.py migrate --database={unmigrated}" in found.lines[0]


def test_a_database_that_is_not_configured_is_a_reason() -> None:
    found = check_health(alias="nowhere")
    assert not found.healthy
    assert "nowhere" in found.lines[0]


def test_how_old_a_poll_may_be_follows_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_max_age() == timedelta(seconds=131)
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=5))
    assert default_max_age() == timedelta(seconds=21)
    with override_settings(STEADY_QUEUE=Options(workers=[Worker(polling_interval=timedelta(minutes=5))])):
        assert default_max_age() == timedelta(seconds=320)
    with override_settings(STEADY_QUEUE="nonsense"):
        assert default_max_age() == timedelta(seconds=21)


def test_a_probe_imports_neither_the_runtime_nor_its_drivers() -> None:
    printed = run_script(
        "import sys, django\n"
        "django.setup()\n"
        "before = set(sys.modules)\n"
        "import steady_queue.checks.health\n"
        "heavy = {'anyio', 'asyncpg', 'aiomysql', 'aiosqlite', 'steady_queue.aio.process.process'}\n"
        "print(sorted(heavy & set(sys.modules) - before))"
    )
    assert printed == "[]\n"
