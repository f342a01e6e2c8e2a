"""The environment in which the project and its server run: that of the tests, or an empty one with the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.processes.scripts import REPOSITORY

#: Set by `make test-servers`.
FROM_WHEEL = "STEADY_QUEUE_SERVERS_FROM_WHEEL"
#: The distributions of the servers, and of Django's driver for PostgreSQL.
DISTRIBUTIONS = ("uvicorn", "uvicorn-worker", "hypercorn", "gunicorn", "granian", "daphne", "psycopg[binary]")
INSTALL_TIMEOUT_SECONDS = 600


class Environment(NamedTuple):
    """The directory with the programs of an environment, and what its processes need to find the package."""

    programs: Path
    variables: dict[str, str]

    @property
    def python(self) -> Path:
        return self.programs / "python"


def environment_of_tests() -> Environment:
    return Environment(Path(sys.executable).parent, {"PYTHONPATH": str(REPOSITORY)})


def environment_from_wheel(directory: Path) -> Environment:
    """Build the wheel and install it, with the newest Django and servers, into an empty environment."""
    _run(Path(sys.executable), "-m", "venv", str(directory / "environment"))
    environment = Environment(directory / "environment" / "bin", {})
    _run(Path(sys.executable), *_PIP, "wheel", "--no-deps", f"--wheel-dir={directory}", str(REPOSITORY))
    (wheel,) = directory.glob("*.whl")
    _run(environment.python, *_PIP, "install", str(wheel), "Django", *DISTRIBUTIONS)
    return environment


_PIP = ("-m", "pip", "--disable-pip-version-check", "-q")


def _run(*words: str | Path) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DJANGO"))}
    done = subprocess.run(
        words, env=own, cwd="/", capture_output=True, text=True, timeout=INSTALL_TIMEOUT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
