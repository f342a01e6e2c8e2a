"""The server's version: told truly, and judged by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.store.operations.server import check_version, find_version_problem

if TYPE_CHECKING:
    from tests.support.store.stores import Store


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("PostgreSQL", "14.0"),
        ("PostgreSQL", "15.4 (Debian 15.4-1.pgdg120+1)"),
        ("PostgreSQL", "18beta2"),
        ("MySQL or MariaDB", "8.0.36-0ubuntu0.22.04.1"),
        ("MySQL or MariaDB", "10.11.6-MariaDB"),
        ("MySQL or MariaDB", "5.5.5-10.11.14-MariaDB-0+deb12u2"),
        ("SQLite", "3.40.1"),
        ("SQLite", "of unknown making"),
    ],
)
def test_a_version_that_will_do(name: str, version: str) -> None:
    assert check_version(name, version) is None


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("PostgreSQL", "13.12", "PostgreSQL 13.12 is too old: 14 or newer is needed"),
        ("MySQL or MariaDB", "5.7.44-log", "MySQL 5.7.44 is too old: 8.0.1 or newer is needed"),
        ("MySQL or MariaDB", "10.11.5-MariaDB", "MariaDB 10.11.5 is too old: 10.11.6 or newer is needed"),
        ("MySQL or MariaDB", "5.5.5-10.6.1-MariaDB", "MariaDB 10.6.1 is too old: 10.11.6 or newer is needed"),
        ("SQLite", "3.34.0", "SQLite 3.34.0 is too old: 3.35 or newer is needed"),
    ],
)
def test_a_version_that_is_too_old(name: str, version: str, said: str) -> None:
    assert check_version(name, version) == said


def test_the_servers_of_these_tests_will_do(store: Store) -> None:
    assert store.run(find_version_problem(store.sql)) is None
