"""Runs the example project `shop` on any of the databases, with its own manage.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.support.processes import ROOT, TIMEOUT_SECONDS, BenchmarkError
from tests.support.databases.aliases import extra_database, twin_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.servers import MariaDB, Postgres

SHOP = ROOT / "examples" / "shop"
NAME = "shop"

#: The settings of the project with another database.
SETTINGS = """
from settings import *

DATABASES = {{"default": {database!r}}}
"""
PLACE_ORDER = """
import django
django.setup()
from orders.checkout import place
from orders.models import Order
place(Order(item=Order.Item.TEAPOT, email="ada@example.com"))
"""
SET_UP_DJANGO = """
import sys
import django
django.setup()
print("ready", flush=True)
sys.stdin.read()
"""


class ExampleShop:
    """The project on one migrated database."""

    def __init__(self, alias: str, environment: Mapping[str, str]) -> None:
        #: The alias of its database in the benchmark.
        self.alias = alias
        self._environment = {**os.environ, **environment}

    def run(self, *arguments: str) -> None:
        """Run Python in the project until it exits."""
        completed = subprocess.run(
            [sys.executable, *arguments], cwd=SHOP, env=self._environment, capture_output=True, text=True
        )
        if completed.returncode:
            raise BenchmarkError(f"{arguments}: {completed.stderr[-2000:]}")

    def place_order(self) -> None:
        """Store an order with its tasks."""
        self.run("-c", PLACE_ORDER)

    @contextmanager
    def command(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run `manage.py steady_queue`, and stop it with SIGTERM when the block ends."""
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "steady_queue", *arguments],
                cwd=SHOP,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(TIMEOUT_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    @contextmanager
    def run_django_setup(self) -> Iterator[subprocess.Popen[bytes]]:
        """A process that has only run `django.setup()`."""
        with subprocess.Popen(
            [sys.executable, "-c", SET_UP_DJANGO],
            cwd=SHOP,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            yield process


@contextmanager
def open_example_shop(alias: str, servers: Mapping[str, Postgres | MariaDB]) -> Iterator[ExampleShop]:
    """The project on the server of this alias, or in a SQLite file."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steady-queue-benchmark-")))
        server = servers.get(alias)
        if server is not None:
            server.create_database(NAME)
            stack.callback(server.drop_database, NAME)
        settings = twin_settings(alias, NAME=NAME if server is not None else str(directory / f"{NAME}.sqlite3"))
        (directory / "benchmark_settings.py").write_text(SETTINGS.format(database=settings))
        project_alias = stack.enter_context(extra_database(f"{NAME}_{alias}", settings))
        path = os.pathsep.join([str(directory), str(ROOT)])
        project = ExampleShop(project_alias, {"DJANGO_SETTINGS_MODULE": "benchmark_settings", "PYTHONPATH": path})
        project.run("manage.py", "migrate", "--run-syncdb", "--verbosity=0")
        yield project
