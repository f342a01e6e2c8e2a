"""System checks of the project: routers, queues, pools, schema. Each problem is reported once, with a hint."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.checks import Error, Warning, run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import override_settings

import steady_queue
from steady_queue.checks.preflight import at_start, examine
from steady_queue.checks.project import check_project, check_schema, connections_needed, pool_size
from steady_queue.configuration import Options, Worker
from steady_queue.jobs.compat import task_backends
from tests.support.databases.aliases import extra_database, pointed_at
from tests.support.databases.foreign_tables import foreign_jobs, foreign_tables
from tests.support.databases.tables import query
from tests.support.databases.unmigrated import marked_as_migrated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.core.checks import CheckMessage

pytestmark = pytest.mark.contract

OURS = "steady_queue.backend.SteadyQueueBackend"
ROUTER = "steady_queue.db_router.SteadyQueueRouter"
POSTGRES = {"ENGINE": "django.db.backends.postgresql", "NAME": "app"}
IMMEDIATE = {"transaction_mode": "IMMEDIATE"}


def with_id(kind: str, messages: list[CheckMessage] | None = None) -> list[CheckMessage]:
    """The messages with this id, all of which say what to do."""
    messages = check_project() if messages is None else messages
    assert all(message.hint for message in messages)
    return [message for message in messages if message.id == f"steady_queue.{kind}"]


@contextmanager
def queue_on(settings: dict[str, Any], name: str = "checked_postgresql") -> Iterator[str]:
    with extra_database(name, settings) as alias, pointed_at(alias):
        yield alias


# -- once for any number of backends --------------------------------------------------------------------------------


def test_a_problem_of_the_project_is_reported_once_for_several_backends() -> None:
    settings = {"ENGINE": "django.db.backends.sqlite3", "NAME": "app.sqlite3"}
    several = {name: {"BACKEND": OURS} for name in ("default", "second", "third")}
    with queue_on(settings, "checked_several"), override_settings(TASKS=several):
        ids = Counter(message.id for message in run_checks())
    assert ids["steady_queue.W003"] == 1


def test_a_missing_app_is_reported_once_by_the_first_of_several_backends() -> None:
    several = {
        "other": {"BACKEND": "steady_queue.jobs.compat.Task"},
        "default": {"BACKEND": OURS},
        "second": {"BACKEND": OURS},
    }
    with override_settings(INSTALLED_APPS=["django.contrib.contenttypes"], TASKS=several):
        ids = [[message.id for message in task_backends[name].check()] for name in ("default", "second")]
        assert check_project() == []
    assert ids == [["steady_queue.E001"], []]


# -- entries of TASKS -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "queues", ["default", {"default": 1}, [""], [" "], ["mail*"], ["m" * 500], ["a\x00b"], [5], ["ok", None]], ids=repr
)
def test_queues_that_are_no_list_of_names_are_an_error(queues: object) -> None:
    with override_settings(TASKS={"default": {"BACKEND": OURS, "QUEUES": queues}}):
        (message,) = with_id("E009", list(task_backends["default"].check()))
    assert isinstance(message, Error)
    assert "TASKS['default']['QUEUES']" in message.msg


@pytest.mark.parametrize("queues", [[], ["default"], ("a", "b"), {"a"}, ["ünïcode 🎉"]], ids=repr)
def test_queues_that_are_names_are_silent(queues: object) -> None:
    with override_settings(TASKS={"default": {"BACKEND": OURS, "QUEUES": queues}}):
        assert list(task_backends["default"].check()) == []


def test_a_key_that_means_nothing_in_an_entry_of_tasks_is_warned_of() -> None:
    with override_settings(TASKS={"default": {"BACKEND": OURS, "QUEUE": ["mail"]}}):
        (message,) = with_id("W010", list(task_backends["default"].check()))
    assert isinstance(message, Warning)
    assert "'QUEUE'" in message.msg
    assert "QUEUES" in str(message.hint)


def test_no_entry_in_tasks_at_all_is_warned_of() -> None:
    with override_settings(TASKS={}):
        (message,) = with_id("W011")
    assert isinstance(message, Warning)
    assert with_id("W011") == []


# -- what runs --------------------------------------------------------------------------------------------------------


def test_every_problem_of_the_options_is_reported() -> None:
    with override_settings(STEADY_QUEUE=Options(workers=[Worker(threads=-1, processes=0)])):
        first, second = with_id("E010")
    assert "workers[0]: threads" in first.msg
    assert "workers[0]: processes" in second.msg


def test_options_of_the_wrong_kind_and_a_wrong_setting_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with override_settings(STEADY_QUEUE={"workers": []}):
        (message,) = with_id("E010")
    assert "Configuration.Options" in message.msg
    monkeypatch.setattr(steady_queue, "shutdown_timeout", 5)
    (message,) = with_id("E010")
    assert "shutdown_timeout" in message.msg


@pytest.mark.parametrize(
    ("queues", "hints"),
    [
        (["mail", "*"], []),
        (["ma*"], []),
        (["mial"], ["Did you mean 'mail'?"]),
        (["xyzzy*"], ["The queues are ['default', 'mail']."]),
        (["*_some_queue", "mail"], ["Use a name, a prefix such as 'mail*', or '*'."]),
    ],
    ids=str,
)
def test_a_queue_that_no_backend_can_fill_gets_a_warning(queues: list[str], hints: list[str]) -> None:
    several = {"default": {"BACKEND": OURS, "QUEUES": ["mail"]}, "second": {"BACKEND": OURS}}
    with override_settings(TASKS=several, STEADY_QUEUE=Options(workers=[Worker(queues=queues)])):
        messages = with_id("W007")
    assert [message.hint for message in messages] == hints
    assert all(isinstance(message, Warning) for message in messages)


def test_any_queue_may_be_served_if_a_backend_allows_any() -> None:
    with override_settings(
        TASKS={"default": {"BACKEND": OURS, "QUEUES": []}}, STEADY_QUEUE=Options(workers=[Worker(queues=["xyzzy"])])
    ):
        assert with_id("W007") == []


# -- pools ------------------------------------------------------------------------------------------------------------

WORKERS = [Worker(threads=3, orm_lanes=5), Worker(threads=4, coroutines=0)]


def test_a_process_needs_a_connection_for_each_thread_and_each_lane() -> None:
    assert connections_needed(Options()) == 11
    assert connections_needed(Options(workers=WORKERS)) == 8
    assert connections_needed(Options(workers=WORKERS), in_one_loop=True) == 12
    assert connections_needed(Options(workers=[])) == 0


@pytest.mark.parametrize(
    ("pool", "size"),
    [(None, None), (False, None), ({}, None), (True, 4), ({"min_size": 6}, 6), ({"min_size": 2, "max_size": 9}, 9)],
    ids=repr,
)
def test_the_size_of_a_pool_is_what_psycopg_makes_of_its_options(pool: object, size: int | None) -> None:
    assert pool_size({**POSTGRES, "OPTIONS": {"pool": pool}}) == size


@pytest.mark.parametrize("pool", [True, {"min_size": 2, "max_size": 7}], ids=repr)
def test_a_pool_that_is_too_small_is_warned_of_once(pool: object) -> None:
    several = {name: {"BACKEND": OURS, "QUEUES": []} for name in ("default", "second")}
    with (
        extra_database("checked_pool", {**POSTGRES, "OPTIONS": {"pool": pool}}) as alias,
        override_settings(TASKS=several, STEADY_QUEUE=Options(workers=WORKERS)),
    ):
        (message,) = with_id("W008", [each for each in run_checks() if each.id == "steady_queue.W008"])
        (warning,) = at_start(Options(workers=WORKERS)).warnings
        (in_one_loop,) = at_start(Options(workers=WORKERS), in_one_loop=True).warnings
    assert isinstance(message, Warning)
    assert repr(alias) in message.msg
    assert "'max_size': 8" in str(message.hint)
    assert "'max_size': 8" in warning
    assert "'max_size': 12" in in_one_loop


def test_a_pool_that_is_large_enough_is_silent() -> None:
    with (
        extra_database("checked_pool", {**POSTGRES, "OPTIONS": {"pool": {"max_size": 8}}}),
        override_settings(STEADY_QUEUE=Options(workers=WORKERS), TASKS={"default": {"BACKEND": OURS, "QUEUES": []}}),
    ):
        assert with_id("W008") == []
        assert at_start(Options(workers=WORKERS)).warnings == ()


# -- the way to the database ------------------------------------------------------------------------------------------


def test_a_pooler_through_which_no_notification_comes_is_warned_of_until_they_are_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with queue_on({**POSTGRES, "DISABLE_SERVER_SIDE_CURSORS": True}):
        (message,) = with_id("W006")
        assert isinstance(message, Warning)
        assert "steady_queue.notify = False" in str(message.hint)
        monkeypatch.setattr(steady_queue, "notify", False)
        assert with_id("W006") == []
    monkeypatch.undo()
    with queue_on(POSTGRES):
        assert with_id("W006") == []


def test_models_that_are_looked_for_in_another_database_are_warned_of() -> None:
    with queue_on(POSTGRES) as alias:
        with override_settings(DATABASE_ROUTERS=[]):
            (message,) = with_id("W005")
            assert isinstance(message, Warning)
            assert repr(alias) in message.msg
            assert ROUTER in str(message.hint)
        with override_settings(DATABASE_ROUTERS=[ROUTER]):
            assert with_id("W005") == []
    with override_settings(DATABASE_ROUTERS=[]):
        assert with_id("W005") == []


class NothingMigrates:
    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return False


def test_a_router_that_keeps_the_tables_from_being_made_is_an_error() -> None:
    strict = f"{__name__}.NothingMigrates"
    with queue_on(POSTGRES):
        with override_settings(DATABASE_ROUTERS=[strict, ROUTER]):
            (message,) = with_id("E011")
            assert isinstance(message, Error)
        with override_settings(DATABASE_ROUTERS=[ROUTER, strict]):
            assert with_id("E011") == []


# -- the schema -------------------------------------------------------------------------------------------------------


def test_a_database_without_the_queues_tables_is_reported_by_the_database_checks(unmigrated: str) -> None:
    with pointed_at(unmigrated):
        assert check_schema(databases=None) == []
        assert check_schema(databases=["default"]) == []
        (message,) = with_id("W009", check_schema(databases=[unmigrated]))
        err = StringIO()
        call_command("check", databases=[unmigrated], stderr=err)
    assert isinstance(message, Warning)
    assert "0001_initial" in message.msg
    assert f"migrate steady_queue --database={unmigrated}" in str(message.hint)
    assert err.getvalue().count("steady_queue.W009") == 1


def test_a_database_with_the_schema_of_this_version_is_accepted_and_a_newer_one_is_reported(database: str) -> None:
    assert check_schema(databases=[database]) == []
    with marked_as_migrated(database, "9999_later"):
        (message,) = with_id("W009", check_schema(databases=[database]))
    assert "9999_later" in message.msg


def test_a_command_that_migrates_gets_no_warning_about_missing_migrations(
    unmigrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["manage.py", "migrate"])
    with pointed_at(unmigrated):
        assert check_schema(databases=[unmigrated]) == []


def test_the_tables_of_another_implementation_are_an_error_that_prevents_migrations(
    unmigrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pointed_at(unmigrated), foreign_tables(unmigrated):
        (message,) = with_id("E013", check_schema(databases=[unmigrated]))
        monkeypatch.setattr("sys.argv", ["manage.py", "migrate"])
        for target in ([], ["steady_queue", "zero"]):
            with pytest.raises(SystemCheckError, match=r"steady_queue\.E013"):
                call_command("migrate", *target, database=unmigrated, skip_checks=False, verbosity=0)
        assert foreign_jobs(unmigrated) == [(1, "shop.tasks.add")]
    assert isinstance(message, Error)
    assert "the distribution steady-queue" in message.msg
    assert "migrate steady_queue zero" in str(message.hint)


def test_a_table_that_lacks_a_column_is_reported_although_its_migration_is_applied(unmigrated: str) -> None:
    query(unmigrated, "CREATE TABLE steady_queue_job (id integer, queue_name integer)")
    with pointed_at(unmigrated), marked_as_migrated(unmigrated, "0001_initial", "0002_task_control", "0003_dashboard"):
        (message,) = with_id("W009", check_schema(databases=[unmigrated]))
    assert "steady_queue_blockedexecution" in message.msg
    assert "migrate steady_queue zero" in str(message.hint)


def test_a_database_that_cannot_be_used_at_all_is_left_to_the_other_checks() -> None:
    with pointed_at("nowhere"):
        assert check_schema(databases=["nowhere"]) == []


def test_the_command_check_reports_what_the_system_checks_report(database: str) -> None:
    with override_settings(DATABASE_ROUTERS=[]):
        (warning,) = (text for text in examine().warnings if ROUTER in text)
    assert repr(database) in warning
