"""The environment in which the project and its server run: that of the tests, or an empty one with the wheel."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import NamedTuple

from tests.release.environment import Environment
from tests.support.processes.scripts import REPOSITORY

#: Set by `make test-servers`.
FROM_WHEEL = "STEADY_QUEUE_SERVERS_FROM_WHEEL"
#: The distributions of the servers, and of Django's driver for PostgreSQL.
DISTRIBUTIONS = ("uvicorn", "uvicorn-worker", "hypercorn", "gunicorn", "granian", "daphne", "psycopg[binary]")


class Installation(NamedTuple):
    """The directory with the programs of an environment, and what its processes need to find the package."""

    programs: Path
    variables: dict[str, str]


def installation_of_tests() -> Installation:
    return Installation(Path(sys.executable).parent, {"PYTHONPATH": str(REPOSITORY)})


def installation_from_wheel(directory: Path) -> Installation:
    """Build the wheel and install it, with the newest Django and servers, into an empty environment."""
    environment = Environment.create(directory, sys.executable)
    environment.run(shlex.join(["pip", "wheel", "-q", "--no-deps", "--wheel-dir=wheel", str(REPOSITORY)]))
    (wheel,) = (directory / "wheel").glob("*.whl")
    environment.install(str(wheel), "Django", *DISTRIBUTIONS)
    return Installation(directory / ".venv" / "bin", {})
