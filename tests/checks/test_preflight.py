"""`steady_queue check`: every problem at once, on every database and without one, and nothing is started."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.checks import ERROR, run_checks
from django.db import connections
from django.test import override_settings

import steady_queue
import tests.shop.tasks  # noqa: F401, while the queues that it names are there
from steady_queue.checks import preflight
from steady_queue.checks.preflight import examine, report
from steady_queue.checks.project import check_project, check_schema
from steady_queue.configuration import Dispatcher, Options, RecurringTask, Worker
from steady_queue.jobs.compat import FRAMEWORK
from tests.support.databases.aliases import extra_database, pointed_at, twin_settings
from tests.support.databases.tables import count
from tests.support.databases.unmigrated import marked_as_migrated
from tests.support.servers.host import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usually_on("postgres", "sqlite")

OURS = "steady_queue.backend.SteadyQueueBackend"
QUEUES = ["default", "mail", "reports", "reports_daily"]


@pytest.fixture(autouse=True)
def _restricted() -> Iterator[None]:
    """Every backend of ours says which queues it has."""
    with override_settings(TASKS={"default": {"BACKEND": OURS, "QUEUES": QUEUES}}):
        yield


def takes(*queues: str) -> Options:
    return Options(workers=[Worker(queues=queues)])


def with_tasks(**entries: Any) -> override_settings:
    return override_settings(TASKS=entries)


# -- what is reported -------------------------------------------------------------------------------------------------


def test_a_project_without_problems_gets_a_report_of_what_was_checked(database: str) -> None:
    status, out, err = report()
    assert (status, err) == (0, [])
    server = {"postgres": r"PostgreSQL \d+\.\d+", "mariadb": r"MariaDB \d+\.\d+\.\d+", "sqlite": r"SQLite 3\.\d+\.\d+"}
    expected = (
        rf"Steady Queue {re.escape(steady_queue.__version__)}: "
        rf"configuration, database {database} \({server[database]}\), schema \d{{4}}: no errors"
    )
    assert len(out) == 1
    assert re.fullmatch(expected, out[0])


def test_nothing_is_started_and_nothing_stays_open(database: str) -> None:
    connections[database].close()
    assert examine().errors == ()
    assert connections[database].connection is None
    assert count(database, "process") == 0


def test_everything_that_is_wrong_is_reported_together(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "process_alive_threshold", timedelta(seconds=1))
    options = Options(workers=[Worker(coroutines=-1)], dispatchers=[Dispatcher(batch_size=0)])
    with (
        marked_as_migrated(database, "9999_later"),
        with_tasks(default={"BACKEND": OURS, "OPTIONS": {"colour": "red"}}, other={"BACKEND": "no.such.Backend"}),
    ):
        status, out, err = report(options)
    assert (status, out) == (1, [])
    assert all(line.startswith("error: ") for line in err)
    for words in ("coroutines", "batch_size", "process_alive_threshold", "'colour'", "no.such", "9999_later"):
        assert [words in line for line in err].count(True) == 1, words


def test_warnings_are_reported_and_do_not_fail(database: str) -> None:
    with with_tasks(default={"BACKEND": f"{FRAMEWORK}.backends.dummy.DummyBackend"}):
        status, out, err = report()
    assert (status, len(out)) == (0, 1)
    assert err == ["warning: no entry in TASKS has steady_queue.backend.SteadyQueueBackend as its BACKEND"]


# -- the configuration ------------------------------------------------------------------------------------------------


def test_options_of_the_wrong_kind_are_one_problem_among_others(database: str) -> None:
    with override_settings(STEADY_QUEUE={"workers": []}), marked_as_migrated(database, "9999_later"):
        first, second = examine().errors
    assert first == (
        "STEADY_QUEUE must be Configuration.Options(...), not {'workers': []}: "
        "from steady_queue.configuration import Configuration"
    )
    assert "9999_later" in second


ANY: Any = None
WRONG = [
    (Options(dispatchers=[Dispatcher(concurrency_maintenance=ANY)]), "dispatchers[0]: concurrency_maintenance must be"),
    (
        Options(recurring_tasks=[RecurringTask(key="a", class_name=ANY, schedule="@daily")]),
        "class_name must be a string",
    ),
    (Options(recurring_tasks=[RecurringTask(key="a", class_name="a.b", schedule=ANY)]), "schedule must be a string"),
    ({}, "STEADY_QUEUE must be Configuration.Options(...), not {}"),
    ([], "STEADY_QUEUE must be Configuration.Options(...), not []"),
]


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize(("options", "said"), WRONG, ids=["switch", "path", "schedule", "dictionary", "list"])
def test_an_option_of_the_wrong_type_is_one_plain_problem(database: str, options: Any, said: str) -> None:
    with override_settings(STEADY_QUEUE=options):
        (error,) = examine().errors
        assert error in {message.msg.rstrip(".") for message in check_project()}
    assert said in error


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"OPTIONS": {"commit_with": []}}, "['commit_with'] must be an alias in DATABASES, not []"),
        ({"OPTIONS": None}, "['OPTIONS'] must be a dictionary, not None"),
        ({"OPTIONS": ["x"]}, "['OPTIONS'] must be a dictionary, not ['x']"),
        ({"QUEUES": None}, "['QUEUES'] must be a list of queue names, not None"),
        ({"QUEUES": [["a"]]}, "['QUEUES'] contains an invalid queue name: ['a']"),
    ],
    ids=str,
)
def test_an_entry_of_tasks_of_wrong_types_is_named_by_both_checks(database: str, entry: Any, said: str) -> None:
    with with_tasks(default={"BACKEND": OURS, **entry}):
        (error,) = examine().errors
        (message,) = (m for m in run_checks(databases=[database]) if str(m.id).startswith("steady_queue.E"))
    assert said in error
    assert said in message.msg


@pytest.mark.only_on("sqlite")
def test_a_name_of_the_database_that_is_none_is_named_by_both_checks(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "database", [database])
    (error,) = examine().errors
    (message,) = (m for m in check_project() if m.level >= ERROR)
    assert f"steady_queue.database must be an alias in DATABASES, not ['{database}']" in error
    assert message.msg in error
    assert check_schema(databases=[database]) == []


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("value", [60, None, timedelta(0)])
def test_a_heartbeat_that_is_no_time_is_named(database: str, monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", value)
    (error,) = examine().errors
    assert "process_heartbeat_interval" in error


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize(
    "setting",
    ["clear_finished_jobs_after", "clear_failed_jobs_after", "process_alive_threshold", "shutdown_timeout"],
)
def test_a_span_longer_than_any_calendar_is_named(database: str, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setattr(steady_queue, setting, timedelta.max)
    (error,) = examine().errors
    assert error.startswith(f"{setting} must be a timedelta of at most 36,500 days")
    monkeypatch.setattr(steady_queue, setting, timedelta(days=36_500))
    assert examine().errors == ()


@pytest.mark.only_on("sqlite")
def test_tasks_that_cannot_be_imported_are_named(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ImportError(f"no module for {name}")

    monkeypatch.setattr(preflight, "autodiscover_modules", broken)
    assert examine().errors == ("the tasks cannot be imported: ImportError: no module for tasks",)


# -- queues -----------------------------------------------------------------------------------------------------------


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("queues", [["*"], ["mail"], ["reports*", " mail "], ["reports_daily", "*"], ["default*"]])
def test_queues_that_are_known_are_well(database: str, queues: list[str]) -> None:
    assert examine(takes(*queues)).errors == ()


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mial", "no backend in TASKS has a queue 'mial' in its QUEUES. Did you mean 'mail'?"),
        ("report", "no backend in TASKS has a queue 'report' in its QUEUES. Did you mean 'reports'"),
        ("Mail", "no backend in TASKS has a queue 'Mail' in its QUEUES. Did you mean 'mail'?"),
        ("mails*", "no backend in TASKS has a queue 'mails*' in its QUEUES. Did you mean 'mail'?"),
        ("xyzzy", f"no backend in TASKS has a queue 'xyzzy' in its QUEUES. The queues are {QUEUES}."),
        ("ma*il", "'ma*il' matches no queue: an asterisk may only be at the end. Use a name, "),
    ],
)
def test_a_queue_that_no_backend_can_fill_is_reported_with_a_similar_name(database: str, name: str, said: str) -> None:
    (error,) = examine(takes("mail", name), named=["mail", name]).errors
    assert error.startswith(f"workers[0]: {said}")
    configured = examine(takes("mail", name))
    assert error in (*configured.errors, *configured.warnings)


@pytest.mark.only_on("sqlite")
def test_a_queue_that_is_given_up_may_still_be_emptied_by_a_configured_worker(database: str) -> None:
    found = examine(takes("mail", "given_up"))
    assert found.errors == ()
    assert any("'given_up'" in warning for warning in found.warnings)


@pytest.mark.only_on("sqlite")
def test_any_queue_may_be_served_if_one_backend_has_any(database: str) -> None:
    both = {"default": {"BACKEND": OURS, "QUEUES": QUEUES}, "anything": {"BACKEND": OURS, "QUEUES": []}}
    with with_tasks(**both):
        assert examine(takes("xyzzy")).errors == ()
    with with_tasks(default={"BACKEND": OURS}, other={"BACKEND": OURS, "QUEUES": ["xyzzy"]}):
        assert examine(takes("xyzzy", "default")).errors == ()


# -- the databases ----------------------------------------------------------------------------------------------------


def test_a_database_without_a_schema_is_named(unmigrated: str) -> None:
    with pointed_at(unmigrated):
        (error,) = examine().errors
    assert f"'{unmigrated}' lacks migrations of steady_queue: 0001_initial" in error


@pytest.mark.only_on("postgres", "mariadb")
def test_an_unavailable_database_is_one_problem_among_others(database: str) -> None:
    away = twin_settings(database, HOST="127.0.0.1", PORT=free_port())
    with extra_database(f"{database}_unreachable", away) as alias, pointed_at(alias):
        wrong_queue, unreachable = examine(takes("mial"), named=["mial"]).errors
    assert "'mial'" in wrong_queue
    assert unreachable.startswith(f"the database '{alias}' cannot be reached: ")


@pytest.mark.only_on("postgres", "mariadb")
def test_a_database_whose_transactions_tasks_wait_for_must_be_reached_as_well(database: str) -> None:
    away = twin_settings(database, HOST="127.0.0.1", PORT=free_port())
    with (
        extra_database(f"{database}_waited_for", away) as alias,
        with_tasks(default={"BACKEND": OURS, "OPTIONS": {"commit_with": alias}}),
    ):
        (error,) = examine().errors
    assert error.startswith(f"Django cannot connect to the database '{alias}': ")


@pytest.mark.only_on("sqlite")
def test_a_database_in_memory_is_named(database: str) -> None:
    memory = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:", "OPTIONS": {"transaction_mode": "IMMEDIATE"}}
    with extra_database("preflight_memory", memory) as alias, pointed_at(alias):
        assert examine().errors == (f"the database '{alias}' is in memory: no worker can reach it",)


@pytest.mark.only_on("sqlite")
def test_the_warnings_of_the_system_checks_stay_warnings_and_come_once(database: str) -> None:
    reading = twin_settings(database)
    del reading["OPTIONS"]["transaction_mode"]
    both = {"default": {"BACKEND": OURS}, "other": {"BACKEND": OURS}}
    with extra_database("preflight_reading", reading) as alias, pointed_at(alias), with_tasks(**both):
        found = examine()
    assert found.errors == ()
    (warning,) = found.warnings
    assert "transaction_mode" in warning


def test_a_database_that_is_not_configured_is_named_once() -> None:
    with pointed_at("nowhere"):
        (error,) = examine().errors
    assert error.startswith(
        "steady_queue.database must be an alias in DATABASES, not 'nowhere'. The aliases are 'default', "
    )


@pytest.mark.only_on("sqlite")
def test_a_project_may_have_no_default_database(database: str) -> None:
    with (
        extra_database("preflight_dummy", {"ENGINE": "django.db.backends.dummy"}) as alias,
        with_tasks(default={"BACKEND": OURS, "OPTIONS": {"commit_with": alias}}),
    ):
        assert examine().errors == ()
