"""Typical mistakes of the first hour are answered by one message that names the cause and the next step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.jobs.compat import NATIVE
from tests.docs.mistake_projects import HEADER, PAGE, Project, make_database, row
from tests.docs.mistakes import MISTAKES, Mistake

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.contract, pytest.mark.xdist_group("mistakes")]


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with the tables of the project."""
    return make_database(tmp_path_factory.mktemp("mistakes"))


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_answered_with_its_cause_and_the_next_step(
    mistake: Mistake, migrated: Path, tmp_path: Path
) -> None:
    message = Project(tmp_path / "project", migrated).answer(mistake)

    assert mistake.cause in message
    assert mistake.next_step in message
    if NATIVE:  # django_tasks words some of them differently
        # To write the table again: python -m tests.docs.mistake_projects
        assert row(mistake, message) in PAGE.text


def test_the_page_lists_these_mistakes_in_this_order() -> None:
    listed = PAGE.text.partition(HEADER)[2].split("\n\n")[0].splitlines()

    assert [line.split(" | ")[0].removeprefix("| ") for line in listed] == [mistake.title for mistake in MISTAKES]
    assert len(MISTAKES) >= 20
