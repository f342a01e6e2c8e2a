from __future__ import annotations

from datetime import timedelta

import pytest


@pytest.fixture
def no_automatic_maintenance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may prune others soon after its start, and runs no maintenance by itself, even on a slow machine."""
    import steady_queue
    from steady_queue.aio.maintenance import maintenance

    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(milliseconds=20))
    monkeypatch.setattr(maintenance, "INTERVAL_SECONDS", 300.0)
