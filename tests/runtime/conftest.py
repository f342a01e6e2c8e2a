from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _empty_book() -> Iterator[None]:
    """Every test finds an empty book, and leaves no task behind a closed gate."""
    from tests.runtime.tasks import book  # not before Django is set up

    book.clear()
    yield
    book.clear()


@pytest.fixture
def only_our_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may prune others soon after its start, and takes no turns of its own, however slow the machine."""
    import steady_queue
    from steady_queue.aio.maintenance import maintenance

    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(milliseconds=20))
    monkeypatch.setattr(maintenance, "INTERVAL", 300.0)
