from __future__ import annotations

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
