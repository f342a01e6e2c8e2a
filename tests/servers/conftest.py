from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.servers.environments import FROM_WHEEL, installation_from_wheel, installation_of_tests
from tests.servers.fresh_project import FreshProject
from tests.support.servers import Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.environments import Installation
    from tests.support.servers import MariaDB


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Made once: all tests of this package run in one test process."""
    if FROM_WHEEL in os.environ:
        return installation_from_wheel(tmp_path_factory.mktemp("environment"))
    return installation_of_tests()


@pytest.fixture(scope="session")
def template(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> FreshProject:
    return FreshProject.create(tmp_path_factory.mktemp("template"), installation)


@pytest.fixture
def project(
    request: pytest.FixtureRequest,
    template: FreshProject,
    servers: dict[str, Postgres | MariaDB],
    tmp_path: Path,
) -> Iterator[FreshProject]:
    """A project of its own, on the kind of database that the test names in the parameter `on`."""
    project = template.copy(tmp_path)
    if request.getfixturevalue("on") == "postgres":
        server = servers["postgres"]
        assert isinstance(server, Postgres)
        name = f"project_{os.urandom(4).hex()}"
        project.move_to(server, name)
        yield project
        server.drop_database(name)
    else:
        yield project
