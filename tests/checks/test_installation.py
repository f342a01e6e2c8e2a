"""System checks: what would fail later is named before anything runs, and nothing is connected to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.core.checks import Error, Warning, run_checks
from django.test import override_settings

from steady_queue.checks.project import check_project
from steady_queue.jobs.compat import FRAMEWORK, NATIVE, task_backends
from tests.support.databases.aliases import extra_database, pointed_at, twin_settings
from tests.support.servers.host import free_port

if TYPE_CHECKING:
    from django.core.checks import CheckMessage

pytestmark = pytest.mark.contract

OURS = "steady_queue.backend.SteadyQueueBackend"
POSTGRES = {"ENGINE": "django.db.backends.postgresql", "NAME": "app", "PASSWORD": "xyzzy-plugh"}
MYSQL = {"ENGINE": "django.db.backends.mysql", "HOST": "127.0.0.1", "NAME": "app", "PASSWORD": "xyzzy-plugh"}
SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "app.sqlite3"}


def found() -> list[CheckMessage]:
    """What `manage.py check` reports for the backend and for the project. Each message has an id and a hint."""
    messages = [*task_backends["default"].check(), *check_project()]
    assert all(message.id and message.id.startswith("steady_queue.") and message.hint for message in messages)
    return messages


def found_for(database: dict[str, Any]) -> list[CheckMessage]:
    with extra_database(f"checked_{database['ENGINE'].rpartition('.')[2]}", database) as alias, pointed_at(alias):
        return found()


def found_with_options(**options: Any) -> list[CheckMessage]:
    with override_settings(TASKS={"default": {"BACKEND": OURS, "OPTIONS": options}}):
        return found()


def test_a_clean_configuration_is_silent(database: str) -> None:
    assert found() == []
    assert [message for message in run_checks() if "steady_queue" in (message.id or "")] == []
    assert found_with_options(aenqueue="native", commit_with=database, max_arguments_bytes=1000) == []


def test_the_checks_run_with_those_of_the_project() -> None:
    with override_settings(TASKS={"default": {"BACKEND": OURS, "OPTIONS": {"colour": "red"}}}):
        assert "steady_queue.E002" in [message.id for message in run_checks()]


def test_a_missing_app_is_named() -> None:
    without = [app for app in settings.INSTALLED_APPS if app != "steady_queue"]
    with override_settings(INSTALLED_APPS=without):
        (message,) = found()
    assert isinstance(message, Error)
    assert "INSTALLED_APPS" in message.msg


def test_the_app_of_the_framework_is_missed_where_it_is_needed() -> None:
    without = [app for app in settings.INSTALLED_APPS if app != "django_tasks"]
    with override_settings(INSTALLED_APPS=without):
        messages = found()
    assert [FRAMEWORK in message.msg for message in messages] == ([] if NATIVE else [True])


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"colour": "red"}, "'colour'"),
        ({5: "red"}, "'5'"),
        ({"aenqueue": "sometimes"}, "'sometimes'"),
        ({"aenqueue": None}, "None"),
        ({"aenqueue": ["auto"]}, "aenqueue"),
        ({"commit_with": "nowhere"}, "'nowhere'"),
        ({"max_arguments_bytes": 0}, "max_arguments_bytes"),
        ({"max_arguments_bytes": "1 MB"}, "max_arguments_bytes"),
        ({"max_arguments_bytes": None}, "max_arguments_bytes"),
    ],
    ids=str,
)
def test_a_wrong_option_is_named(options: dict[Any, Any], word: str) -> None:
    with override_settings(TASKS={"default": {"BACKEND": OURS, "OPTIONS": options}}):
        (message,) = found()
    assert isinstance(message, Error)
    assert word in message.msg
    assert "TASKS['default']" in message.msg


def test_every_backend_is_checked_by_its_own_name() -> None:
    entry = {"BACKEND": OURS, "OPTIONS": {"colour": "red"}}
    with override_settings(TASKS={"default": {"BACKEND": OURS}, "other": entry}):
        (message,) = task_backends["other"].check()
    assert "TASKS['other']" in message.msg


def test_an_alias_that_names_no_database_is_named() -> None:
    with pointed_at("nowhere"):
        (message,) = found()
    assert isinstance(message, Error)
    assert "'nowhere'" in message.msg


def test_an_engine_that_is_not_supported_is_named() -> None:
    (message,) = found_for({"ENGINE": "django.db.backends.dummy", "NAME": "x"})
    assert isinstance(message, Error)
    assert "PostgreSQL, MySQL, MariaDB or SQLite" in message.msg


def test_settings_that_django_itself_refuses_are_named() -> None:
    (message,) = found_for({**POSTGRES, "NAME": ""})
    assert isinstance(message, Error)
    assert "NAME" in message.msg
    (message,) = found_for({**MYSQL, "OPTIONS": {"isolation_level": "read nothing"}})
    assert "read nothing" in message.msg


@pytest.mark.parametrize(
    ("base", "options", "unknown"),
    [
        (POSTGRES, {"sslmode": "require", "keepalives": 1, "tcp_user_timeout": 5}, ["keepalives", "tcp_user_timeout"]),
        (POSTGRES, {"channel_binding": "require"}, ["channel_binding"]),
        (MYSQL, {"charset": "utf8mb4", "read_timeout": 5, "ssl_mode": "REQUIRED"}, ["read_timeout", "ssl_mode"]),
        (MYSQL, {"ssl": True}, ["ssl"]),
        (SQLITE, {"transaction_mode": "IMMEDIATE", "factory": None, "timeout": 5}, ["factory"]),
    ],
    ids=["postgres", "postgres security", "mysql", "mysql security", "sqlite"],
)
def test_an_option_that_the_async_driver_cannot_take_is_named(
    base: dict[str, Any], options: dict[str, Any], unknown: list[str]
) -> None:
    messages = found_for({**base, "OPTIONS": options})
    assert [name for name in options if any(f"{name!r}" in message.msg for message in messages)] == unknown
    assert len(messages) == len(unknown)
    assert all(isinstance(message, Warning) and "aenqueue" in str(message.hint) for message in messages)


@pytest.mark.parametrize("mode", [None, "DEFERRED", "deferred"])
def test_sqlite_without_immediate_transactions_is_warned_of(mode: str | None) -> None:
    (message,) = found_for({**SQLITE, "OPTIONS": {} if mode is None else {"transaction_mode": mode}})
    assert isinstance(message, Warning)
    assert "transaction_mode" in str(message.hint)


@pytest.mark.parametrize("mode", ["IMMEDIATE", "immediate", "EXCLUSIVE"])
def test_sqlite_with_immediate_transactions_is_silent(mode: str) -> None:
    assert found_for({**SQLITE, "OPTIONS": {"transaction_mode": mode}}) == []


def test_no_message_contains_the_password() -> None:
    for base in (POSTGRES, MYSQL):
        for options in ({"unknown": 1}, {"isolation_level": "read nothing"}, {"password": "xyzzy-plugh"}):
            text = " ".join(f"{message} {message!r}" for message in found_for({**base, "OPTIONS": options}))
            assert "xyzzy" not in text


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_checks_connect_to_nothing(kind: str) -> None:
    with extra_database(f"{kind}_closed", twin_settings(kind, PORT=free_port())) as alias, pointed_at(alias):
        assert found() == []


@pytest.mark.parametrize("host", ["", "localhost"])
def test_a_mysql_host_that_the_two_drivers_understand_differently_is_warned_of(host: str) -> None:
    (message,) = found_for({**MYSQL, "HOST": host})
    assert isinstance(message, Warning)
    assert "127.0.0.1" in str(message.hint)
