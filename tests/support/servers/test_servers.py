"""The servers of the tests: they answer, survive being killed, and leave no process and no file."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import MySQLdb
import psycopg
import pytest

from tests.support.processes.scripts import REPOSITORY
from tests.support.servers import (
    MariaDB,
    PgBouncer,
    Postgres,
    ServerError,
    ServerMissing,
    ServerProcess,
    cleanup_process,
    host,
    wait_until,
)
from tests.support.servers.host import PortClaim, claim_port, programs

#: The setup of the module is expensive: its tests stay in one process.
pytestmark = pytest.mark.xdist_group("servers")

Server = Postgres | MariaDB
SERVERS: dict[str, type[Server]] = {"postgres": Postgres, "mariadb": MariaDB}
REFUSED = (psycopg.OperationalError, MySQLdb.OperationalError)


@pytest.fixture(scope="module", params=SERVERS)
def server_kind(request: pytest.FixtureRequest) -> type[Server]:
    """Each kind of server."""
    return SERVERS[request.param]


@pytest.fixture(scope="module")
def running(server_kind: type[Server]) -> Iterator[Server]:
    """One server of each kind for the tests that need none of their own."""
    with server_kind() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    """The server with an empty table of numbers; it runs again after the test."""
    running.create_database("app")
    query(running, "CREATE TABLE numbers (number integer)")
    yield running
    if not running.running:
        running.start()
    running.drop_database("app")


def connect(server: ServerProcess, password: str = ServerProcess.password) -> Any:
    """A connection over the loopback port."""
    account: dict[str, Any] = {"host": server.host, "port": server.port, "user": server.user, "password": password}
    if isinstance(server, MariaDB):
        return MySQLdb.connect(**account, database="app", autocommit=True)
    return psycopg.connect(**account, dbname="app", autocommit=True)


def query(server: ServerProcess, statement: str) -> list[Any]:
    """The first column of the rows a statement gives."""
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()] if cursor.description else []


def test_answers_a_query(server: Server) -> None:
    assert query(server, "SELECT 40 + 2") == [42]


def test_refuses_a_wrong_password(server: Server) -> None:
    with pytest.raises(REFUSED):
        connect(server, password="wrong")


def test_drops_a_database_that_has_open_connections(server: Server) -> None:
    with closing(connect(server)):
        server.drop_database("app")
    with pytest.raises(REFUSED):
        connect(server)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_keeps_every_commit(server: Server, end: str) -> None:
    port = server.port
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        for number in range(100):
            cursor.execute(f"INSERT INTO numbers VALUES ({number})")
        getattr(server, end)()
        with pytest.raises(REFUSED):
            connect(server)
        server.start()
    assert server.port == port
    assert query(server, "SELECT number FROM numbers ORDER BY number") == list(range(100))


def test_a_killed_server_takes_its_children_along(server: Server) -> None:
    with closing(connect(server)):
        processes = [server.pid, *cleanup_process.children(server.pid)]
        server.kill()
    assert not any(cleanup_process.alive(pid) for pid in processes)


def test_a_frozen_server_is_silent_until_thawed(server: Server) -> None:
    answer: list[Any] = []
    server.freeze()
    client = threading.Thread(target=lambda: answer.extend(query(server, "SELECT 40 + 2")))
    client.start()
    client.join(0.3)
    assert answer == []
    server.thaw()
    client.join()
    assert answer == [42]


@pytest.mark.parametrize("frozen", [False, True])
def test_destroy_leaves_no_process_and_no_directory(server_kind: type[Server], frozen: bool) -> None:
    with server_kind() as server:
        processes = [server.pid, *cleanup_process.children(server.pid)]
        if frozen:
            server.freeze()
    assert not any(cleanup_process.alive(pid) for pid in processes)
    assert not server.directory.exists()


def test_a_killed_test_run_leaves_nothing_either(server_kind: type[Server]) -> None:
    script = f"""if True:
        import os, signal
        from tests.support.servers import {server_kind.__name__}, cleanup_process
        server = {server_kind.__name__}().start()
        print(server.directory, server.pid, *cleanup_process.children(server.pid), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    run = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=False)
    assert run.returncode == -signal.SIGKILL
    directory, *processes = run.stdout.split()
    wait_until(lambda: not Path(directory).exists(), "the clean-up process has removed the directory")
    assert not any(cleanup_process.alive(int(pid)) for pid in processes)


def test_a_server_whose_port_is_in_use_at_its_first_start_chooses_another(server_kind: type[Server]) -> None:
    server = server_kind()
    with socket.create_server((server.host, server.port)) as taken, server:
        assert server.port != taken.getsockname()[1]
        server.create_database("app")
        assert query(server, "SELECT 40 + 2") == [42]


def test_a_server_that_cannot_start_reports_the_reason(server_kind: type[Server]) -> None:
    server = server_kind().start()
    server.stop()
    # Its clients know the port: it must not start again on another one.
    with socket.create_server((server.host, server.port)), pytest.raises(ServerError) as caught, server:
        pass
    assert "in use" in "".join(caught.value.__notes__)
    assert not server.directory.exists()


def test_a_claimed_port_is_not_given_to_another_process() -> None:
    with claim_port() as claim:
        with pytest.raises(OSError, match="in use"):
            PortClaim(claim.port)
        script = f"from tests.support.servers.host import PortClaim; PortClaim({claim.port})"
        run = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, stderr=subprocess.PIPE, check=False)
        assert b"in use" in run.stderr
    PortClaim(claim.port).release()


def test_a_port_that_a_process_listens_on_cannot_be_claimed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for _ in range(2):  # the first attempt leaves no lock behind
            with pytest.raises(OSError, match="in use"):
                PortClaim(port)
    PortClaim(port).release()


@pytest.mark.parametrize("outgoing", ["32768 60999", "20000 65535", "1024 65535", None])
def test_ports_are_none_that_outgoing_connections_get_if_there_are_others(
    outgoing: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "range"
    if outgoing:
        file.write_text(outgoing.replace(" ", "\t") + "\n")
    monkeypatch.setattr(host, "OUTGOING", file)
    first, last = map(int, (outgoing or "32768 60999").split())
    ports = [host.free_port() for _ in range(20)]
    assert outgoing == "1024 65535" or not [port for port in ports if first <= port <= last]


def test_a_missing_program_names_its_package() -> None:
    with pytest.raises(ServerMissing, match="apt-get install no-such-package"):
        programs("no-such-program", packages="no-such-package")


@pytest.mark.parametrize("database", ["postgres"])
def test_pgbouncer_passes_a_query_and_finds_a_killed_server_again(database: str) -> None:
    with Postgres() as postgres, PgBouncer(postgres) as bouncer:
        postgres.create_database("app")
        assert query(bouncer, "SELECT 40 + 2") == [42]
        postgres.kill()
        postgres.start()
        wait_until(bouncer.answers, "the pooler has a new connection")
        assert query(bouncer, "SELECT 40 + 2") == [42]


@pytest.mark.parametrize("database", ["postgres"])
def test_pgbouncer_chooses_another_port_if_its_own_is_in_use(database: str) -> None:
    with Postgres() as postgres:
        bouncer = PgBouncer(postgres)
        with socket.create_server((bouncer.host, bouncer.port)) as taken, bouncer:
            assert bouncer.port != taken.getsockname()[1]
            postgres.create_database("app")
            assert query(bouncer, "SELECT 40 + 2") == [42]
