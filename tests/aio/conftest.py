from __future__ import annotations

import pytest

from tests.support.fixtures import empty_task_record

__all__ = ["empty_task_record"]


@pytest.fixture
def short_outage_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process checks often whether its database has recovered."""
    from steady_queue.aio import outage

    monkeypatch.setattr(outage, "MAX_PAUSE_SECONDS", 0.2)
