"""The system check of transactional tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue import task
from steady_queue.checks.preflight import examine
from steady_queue.checks.project import check_project
from steady_queue.jobs.definition.task import transactional_tasks
from tests.support.databases.aliases import application_in

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "tests.shop.tasks.books"


@pytest.fixture
def transactional_task() -> Iterator[None]:
    """The app `tests.shop` has a transactional task."""

    def books() -> None: ...

    books.__module__, books.__qualname__ = PATH.rpartition(".")[0], "books"
    task(transactional=True)(books)
    yield
    del transactional_tasks[PATH]


@pytest.mark.usefixtures("transactional_task")
def test_a_transactional_task_with_the_queue_in_another_database_is_an_error(database: str) -> None:
    (message,) = check_project()
    assert message.id == "steady_queue.E015"
    assert PATH in message.msg
    assert message.msg in [error[: len(message.msg)] for error in examine().errors]


@pytest.mark.usefixtures("transactional_task")
def test_a_transactional_task_with_the_queue_in_the_same_database_is_fine(database: str) -> None:
    with application_in(database):
        assert check_project() == []


def test_tasks_of_packages_that_are_no_apps_are_not_checked(database: str) -> None:
    from tests.support.tasks import transactional

    assert transactional.writes.module_path in transactional_tasks
    assert check_project() == []
