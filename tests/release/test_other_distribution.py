"""The wheel and the distribution `steady-queue` from the package index, in one environment or one after the other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.release.environment import Environment, find_python, find_wheel
from tests.release.first_steps import RESULT, read_first_steps

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]

OTHER = "steady-queue"
REINSTALL = "pip uninstall -y steady-queue steady-queue-aio"


@pytest.mark.parametrize("is_first", [True, False])
def test_a_mixture_of_both_is_refused_and_the_named_commands_repair_it(is_first: bool, tmp_path: Path) -> None:
    environment = Environment.create(tmp_path, find_python("newest"))
    wheel = str(find_wheel())
    for requirement in [wheel, OTHER] if is_first else [OTHER, wheel]:
        environment.install(requirement)
    steps = read_first_steps()
    environment.run(steps.commands[1])
    steps.write_files(tmp_path)

    for command in ("check", "migrate", "steady_queue", "shell -c 'import project.tasks'"):
        printed = environment.run(f"python manage.py {command}", status=1)
        assert "has files of two distributions, steady-queue-aio and steady-queue" in printed
        assert f"run: {REINSTALL}, then: pip install steady-queue-aio" in printed

    environment.run(REINSTALL)
    environment.install(wheel)
    for command in steps.commands[2:]:
        printed = environment.run(command)
    assert RESULT in printed


def test_a_project_of_the_other_distribution_keeps_its_tables(tmp_path: Path) -> None:
    environment = Environment.create(tmp_path, find_python("newest"))
    environment.install(OTHER)
    steps = read_first_steps()
    environment.run(steps.commands[1])
    (tmp_path / "project" / "tasks.py").write_text(
        "from django.tasks import task\n\n\n@task()\ndef add(a, b):\n    return a + b\n"
    )
    environment.append("project/settings.py", steps.files["project/settings.py"])
    environment.run("python manage.py migrate")
    enqueue = "python manage.py shell -c 'from project.tasks import add; add.enqueue(2, 3)'"
    environment.run(enqueue)
    before = dump(tmp_path / "db.sqlite3")
    environment.run(f"pip uninstall -q -y {OTHER}")
    environment.install(str(find_wheel()))

    environment.run("python manage.py check")
    for command in (
        "check --database default",
        "migrate",
        "migrate steady_queue zero",
        "steady_queue check",
        "steady_queue",
    ):
        printed = environment.run(f"python manage.py {command}", status=1)
        assert "belong to another implementation, the distribution steady-queue" in printed
    assert "was not stored" in environment.run(enqueue, status=1)
    assert dump(tmp_path / "db.sqlite3") == before

    environment.run("pip uninstall -q -y steady-queue-aio")
    environment.install(OTHER)
    environment.run(enqueue)


def dump(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return list(connection.iterdump())
