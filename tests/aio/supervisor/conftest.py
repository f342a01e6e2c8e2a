from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.aio.supervisor.task_log import TaskLog


@pytest.fixture
def task_log(tmp_path: Path) -> TaskLog:
    from tests.aio.supervisor.task_log import TaskLog

    return TaskLog(tmp_path / "ledger")
