from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.supervisor.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    from tests.supervisor.ledger import Ledger

    return Ledger(tmp_path / "ledger")
