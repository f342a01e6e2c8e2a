"""Which database holds the queue, and databases that only one test has."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.conf import settings as django_settings
from django.db import connections
from django.test import override_settings

import steady_queue
from tests.support.databases.invariants import violations
from tests.support.databases.tables import empty_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


@contextmanager
def queue_in(alias: str) -> Iterator[str]:
    """The queue is in this database, which is checked and emptied at the end, as by the fixture `database`."""
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
    assert not found


@contextmanager
def pointed_at(alias: str) -> Iterator[str]:
    """The queue is in this database, which the caller cleans up."""
    before = steady_queue.database
    steady_queue.database = alias
    try:
        yield alias
    finally:
        steady_queue.database = before


def application_in(alias: str) -> AbstractContextManager[Any]:
    """The application has its rows in this database, so that tasks can be transactional."""
    backend = {**django_settings.TASKS["default"], "OPTIONS": {"commit_with": alias}}
    return override_settings(TASKS={**django_settings.TASKS, "default": backend})


@contextmanager
def extra_database(alias: str, settings: dict[str, Any]) -> Iterator[str]:
    """Adds a database to the settings. A name stays with its kind of database: drivers remember what an alias was."""
    assert alias not in connections.databases, f"{alias} is taken"
    completed = connections.configure_settings({"default": dict(connections.databases["default"]), alias: settings})
    connections.databases[alias] = completed[alias]
    try:
        yield alias
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.databases[alias]


def twin_settings(alias: str, *, options: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """The settings of a database with some of them changed: another way to the same rows."""
    settings = connections.databases[alias]
    kept = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")
    return {
        **{name: settings[name] for name in kept},
        "OPTIONS": {**settings["OPTIONS"], **(options or {})},
        **changes,
    }
