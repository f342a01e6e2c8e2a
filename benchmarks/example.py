"""The example project `shop` on any database, run as its own manage.py runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.hands import PATIENCE, ROOT, HandError
from tests.support.databases.aliases import extra_database, twin_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.servers import MariaDB, Postgres

SHOP = ROOT / "examples" / "shop"
NAME = "shop"

#: The project's settings with another database.
SETTINGS = """
from settings import *

DATABASES = {{"default": {database!r}}}
"""
PLACE = """
import django
django.setup()
from orders.checkout import place
from orders.models import Order
place(Order(item=Order.Item.TEAPOT, email="ada@example.com"))
"""
SET_UP = """
import sys
import django
django.setup()
print("ready", flush=True)
sys.stdin.read()
"""


class Example:
    """The project on one database, migrated."""

    def __init__(self, alias: str, environment: Mapping[str, str]) -> None:
        #: The way to its database from here.
        self.alias = alias
        self._environment = {**os.environ, **environment}

    def run(self, *arguments: str) -> None:
        """Run a Python of the project to its end."""
        done = subprocess.run(
            [sys.executable, *arguments], cwd=SHOP, env=self._environment, capture_output=True, text=True
        )
        if done.returncode:
            raise HandError(f"{arguments}: {done.stderr[-2000:]}")

    def place_order(self) -> None:
        """Store an order with its tasks."""
        self.run("-c", PLACE)

    @contextmanager
    def command(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """`manage.py steady_queue`, which is told to stop at the end of the block."""
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
                    process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    @contextmanager
    def set_up(self) -> Iterator[subprocess.Popen[bytes]]:
        """A process that has done nothing but `django.setup()`."""
        with subprocess.Popen(
            [sys.executable, "-c", SET_UP],
            cwd=SHOP,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            yield process


@contextmanager
def example(alias: str, servers: Mapping[str, Postgres | MariaDB]) -> Iterator[Example]:
    """The project on the server of this alias, or in a SQLite file."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steady-queue-benchmark-")))
        server = servers.get(alias)
        if server is not None:
            server.create_database(NAME)
            stack.callback(server.drop_database, NAME)
        settings = twin_settings(alias, NAME=NAME if server is not None else str(directory / f"{NAME}.sqlite3"))
        (directory / "benchmark_settings.py").write_text(SETTINGS.format(database=settings))
        here = stack.enter_context(extra_database(f"{NAME}_{alias}", settings))
        path = os.pathsep.join([str(directory), str(ROOT)])
        project = Example(here, {"DJANGO_SETTINGS_MODULE": "benchmark_settings", "PYTHONPATH": path})
        project.run("manage.py", "migrate", "--run-syncdb", "--verbosity=0")
        yield project
