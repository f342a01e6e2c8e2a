from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue import hooks
from steady_queue.events import subscriptions
from steady_queue.hooks import Reporter

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers ends with it."""
    for moments in hooks.by_kind.values():
        for moment in (moments.on_start, moments.on_stop, moments.on_exit):
            monkeypatch.setattr(moment, "hooks", ())
    monkeypatch.setattr(subscriptions, "_subscriptions", ())
    monkeypatch.setattr(hooks, "reporter", Reporter())


@pytest.fixture(autouse=True)
def _empty_book() -> Iterator[None]:
    from tests.runtime.tasks import book  # not before Django is set up

    book.clear()
    yield
    book.clear()
