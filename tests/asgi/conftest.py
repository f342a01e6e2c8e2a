from __future__ import annotations

import pytest

from tests.support.fixtures import empty_task_record

__all__ = ["empty_task_record"]


@pytest.fixture
def _servers_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every database server is too old."""
    from steady_queue.store.operations.database import server as database_server

    monkeypatch.setattr(database_server, "OLDEST_VERSIONS", dict.fromkeys(database_server.OLDEST_VERSIONS, (1000,)))
