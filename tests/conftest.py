"""Starts the servers, sets Django up on them, gives every database test an empty database and checks it at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import django
import pytest

from tests.support.enqueue import put_async, put_sync
from tests.support.processes.default_signals import restore_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from tests.support.enqueue import Put
    from tests.support.servers import MariaDB, Postgres
    from tests.support.servers.proxy import Proxy

DATABASES = ("postgres", "mariadb", "sqlite")
#: Folders whose tests usually run on some databases only, unless a test has a mark of its own. What differs between the
#: databases is in the store, whose tests always run on all of them.
USUALLY_ON = {
    "actions": ("postgres", "sqlite"),
    "aio": ("postgres", "sqlite"),
    "aio/command": ("postgres",),
    "aio/supervisor": ("postgres",),
    "asgi": ("postgres", "sqlite"),
    "contract": ("postgres",),
    "events": ("postgres",),
    "hooks": ("postgres",),
    "jobs": ("postgres", "sqlite"),
    "management": ("postgres",),
    "testing": ("postgres", "sqlite"),
}
TESTS = Path(__file__).parent
_servers: dict[str, Postgres | MariaDB] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--databases", default=",".join(DATABASES), help="the databases to test on, with commas between (default: all)"
    )
    parser.addoption(
        "--everywhere",
        action="store_true",
        help="also run what usually runs on one database; takes much longer",
    )


def chosen(config: pytest.Config) -> list[str]:
    return [name for name in str(config.getoption("--databases")).split(",") if name]


def pytest_configure(config: pytest.Config) -> None:
    restore_signals()  # before anything is started
    config.addinivalue_line("markers", "only_on(*databases): the databases to which the test applies")
    config.addinivalue_line("markers", "needs(*databases): the servers that the test uses in addition to `database`")
    config.addinivalue_line("markers", "usually_on(*databases): on the others only with --everywhere")
    # A directory per run: two runs at the same time must not share SQLite files.
    directory = tempfile.mkdtemp(prefix="steady-queue-tests-")
    config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))
    os.environ["STEADY_QUEUE_TEST_DIRECTORY"] = directory
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    os.environ["STEADY_QUEUE_TEST_DATABASES"] = ",".join(chosen(config))
    # Many tests start interpreters, which would compile everything again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    runs_tests = not (config.option.collectonly or config.option.help or distributes_tests(config))
    if runs_tests:
        start_servers(config)
    os.environ["STEADY_QUEUE_TEST_ADMIN"] = "1"
    django.setup()
    del os.environ["STEADY_QUEUE_TEST_ADMIN"]
    if runs_tests:
        prepare_databases(config)


def distributes_tests(config: pytest.Config) -> bool:
    """Whether this process only distributes the tests to worker processes, which have servers of their own."""
    return bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")


def start_servers(config: pytest.Config) -> None:
    from tests.support.servers import MariaDB, Postgres

    makers: dict[str, Callable[[], Postgres | MariaDB]] = {"postgres": Postgres, "mariadb": MariaDB}
    started = {name: makers[name]() for name in chosen(config) if name in makers}
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda server: server.start(), started.values()))
    for name, server in started.items():
        config.add_cleanup(server.destroy)
        server.create_database("steady_queue")
        _servers[name] = server
        for key in ("host", "port", "user", "password"):
            os.environ[f"STEADY_QUEUE_TEST_{name.upper()}_{key.upper()}"] = str(getattr(server, key))


def prepare_databases(config: pytest.Config) -> None:
    from django.core.management import call_command
    from django.db import connections
    from django.test.utils import setup_test_environment, teardown_test_environment

    setup_test_environment()
    config.add_cleanup(teardown_test_environment)
    for alias in ("default", *chosen(config)):
        call_command("migrate", database=alias, run_syncdb=True, verbosity=0)
        connections[alias].close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    has_its_own = any("database" in str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize"))
    if "database" in metafunc.fixturenames and not has_its_own:
        metafunc.parametrize("database", chosen(metafunc.config), indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a report that contains lone surrogates sendable between processes."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that do not apply to their database, instead of skipping them."""
    left_out = [item for item in items if not _belongs(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _belongs(item)]


def _belongs(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec else ()
    needed = {*_marked(item, "needs"), *(value for value in values if isinstance(value, str))}
    if not needed.isdisjoint(set(DATABASES) - set(chosen(item.config))):
        return False
    if callspec is None or "database" not in callspec.params:
        return True
    places = _marked(item, "only_on") or DATABASES
    if not item.config.getoption("--everywhere"):
        usual = _marked(item, "usually_on") or _usual_of_folder(item.path.parent)
        places = [name for name in places if name in usual] or places
    return callspec.params["database"] in places


def _usual_of_folder(folder: Path) -> Sequence[str]:
    """The databases of the nearest folder that has an entry."""
    path = folder.relative_to(TESTS)
    nearest = (USUALLY_ON.get(one.as_posix()) for one in (path, *path.parents))
    return next((databases for databases in nearest if databases), DATABASES)


def _marked(item: pytest.Item, name: str) -> Sequence[str]:
    marker = item.get_closest_marker(name)
    return () if marker is None else marker.args


@pytest.fixture(autouse=True)
def language_of_the_settings() -> Iterator[None]:
    """The middleware activates the language of a request for the thread, and the next test would run in it."""
    from django.utils import translation

    yield
    translation.deactivate()


@pytest.fixture(scope="session")
def servers() -> dict[str, Postgres | MariaDB]:
    """The private servers, to be stopped and killed only by tests that start them again."""
    return _servers


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """The alias of a database that holds the queue for this test, empty at its start and checked at its end."""
    from asgiref.sync import SyncToAsync
    from django.db import connections

    import steady_queue
    from tests.support.databases.invariants import violations
    from tests.support.databases.tables import empty_tables

    alias: str = request.param
    before = steady_queue.database
    steady_queue.database = alias
    try:
        yield alias
        connections[alias].close_if_unusable_or_obsolete()
        found = violations(alias)
    finally:
        steady_queue.database = before
        empty_tables(alias)
        connections.close_all()
        # asgiref's thread for sync code outlives the test; a connection left there may be ended before its next use.
        SyncToAsync.single_thread_executor.submit(connections.close_all).result()
    assert not found


@pytest.fixture
def unmigrated(database: str, servers: dict[str, Postgres | MariaDB], tmp_path: Path) -> Iterator[str]:
    """The alias of a database of the same kind, without any table."""
    from tests.support.databases.unmigrated import unmigrated_database

    with unmigrated_database(database, servers, tmp_path) as alias:
        yield alias


@pytest.fixture
def proxy(database: str, servers: dict[str, Postgres | MariaDB]) -> Iterator[Proxy]:
    """A proxy to the server, which can be interrupted for the processes under test only."""
    from tests.support.servers.proxy import Proxy

    with Proxy(servers[database]) as proxy:
        yield proxy


@pytest.fixture
def proxied(database: str, proxy: Proxy) -> Iterator[str]:
    """The alias of the database behind the proxy, for a process under test only."""
    from tests.support.databases.aliases import extra_database, twin_settings

    # asyncpg logs an error if a connection is lost and closed while it negotiates encryption.
    options = {"sslmode": "disable"} if database == "postgres" else {}
    settings = twin_settings(database, options=options, HOST=proxy.host, PORT=proxy.port)
    with extra_database(f"{database}_proxied", settings) as alias:
        yield alias


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> Iterator[str]:
    """The queue in a database named by the test itself; `database` is for what must hold on all three."""
    from tests.support.databases.aliases import queue_in

    with queue_in(request.param) as alias:
        yield alias


@pytest.fixture(params=[put_sync, put_async], ids=["enqueue", "aenqueue"])
def put(request: pytest.FixtureRequest) -> Put:
    """Both ways to enqueue: what is true of one must be true of the other."""
    way: Put = request.param
    return way


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    # The debug mode of an event loop makes it much slower.
    return "asyncio", {"debug": bool(request.config.getoption("--everywhere"))}
