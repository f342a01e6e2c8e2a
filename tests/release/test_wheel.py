"""The README's first steps with the wheel in an empty environment, on the oldest and the newest versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.release.environment import Environment, find_python, find_wheel
from tests.release.first_steps import RESULT, read_first_steps
from tests.support.servers.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]

VERSIONS = {"oldest": "Django~=5.2.0", "newest": ""}


@pytest.fixture(params=["sqlite", "postgres"])
def database_settings(request: pytest.FixtureRequest) -> Iterator[str]:
    """The settings of an empty database; none where those of the README are used."""
    if request.param == "sqlite":
        yield ""
        return
    with Postgres() as server:
        server.create_database("project")
        where = (
            f"'HOST': {server.host!r}, 'PORT': {server.port}, 'USER': {server.user!r}, 'PASSWORD': {server.password!r}"
        )
        yield f"DATABASES = {{'default': {{'ENGINE': 'django.db.backends.postgresql', 'NAME': 'project', {where}}}}}"


@pytest.mark.parametrize("which", VERSIONS)
def test_the_wheel_leads_to_the_first_result_and_stops(which: str, database_settings: str, tmp_path: Path) -> None:
    environment = Environment.create(tmp_path, find_python(which), VERSIONS[which])
    extra = "[postgres]" if database_settings else ""
    steps = read_first_steps()
    install, create, migrate, enqueue, drain = steps.commands

    environment.run(install.replace("steady-queue-aio", f"'{find_wheel()}{extra}'"))
    environment.run(create)
    steps.write_files(tmp_path)
    if which == "oldest":
        environment.append("project/settings.py", 'INSTALLED_APPS += ["django_tasks"]')
    environment.append("project/settings.py", database_settings)
    environment.run(migrate)
    environment.run("python manage.py check --fail-level WARNING --database default")
    result_id = environment.run(enqueue).split()[-1]
    assert RESULT in environment.run(drain)
    read = f"from project.tasks import add; print(add.get_result({result_id!r}).return_value)"
    assert environment.run(f'python manage.py shell -c "{read}"').split()[-1] == "5"

    environment.run(enqueue)
    assert environment.run_until_printed(["manage.py", "steady_queue"], RESULT) == 0
    versions = environment.run('python -c "import django, sys; print(django.__version__, sys.version.split()[0])"')
    assert versions.startswith("5.2") == (which == "oldest")
