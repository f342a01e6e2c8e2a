"""Fixtures of several folders: the conftest.py of a folder imports the fixtures that its tests need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def empty_task_record() -> Iterator[None]:
    """Every test has an empty record, and leaves no task waiting at a closed gate."""
    from tests.support.tasks.recording import task_record  # not before Django is set up

    task_record.clear()
    yield
    task_record.clear()


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the hooks and subscribers of a test at its end."""
    from steady_queue import hooks
    from steady_queue.events import subscriptions

    for moments in hooks.by_kind.values():
        for moment in (moments.on_start, moments.on_stop, moments.on_exit):
            monkeypatch.setattr(moment, "hooks", ())
    monkeypatch.setattr(subscriptions, "_subscriptions", ())
    monkeypatch.setattr(hooks, "reporter", hooks.Reporter())
