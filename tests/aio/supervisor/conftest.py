from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.aio.supervisor.task_log import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    from tests.aio.supervisor.task_log import Ledger

    return Ledger(tmp_path / "ledger")
