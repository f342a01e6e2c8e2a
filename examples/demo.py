"""Steady Queue at work: `make demo`, or `python examples/demo.py` where it is installed.

Makes a SQLite file in a temporary directory, enqueues a bakery's tasks in every way there is, runs them, and reads from
the database what became of each. Exits with 1 when a task was lost or a limit was not kept.

    demo.py     this: a fresh database             show.py     the demo itself
    loop.py     a worker                           report.py   the closing table
    bakery/     the sample project
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import django
from django.core.management import call_command
from django.db import connections

BAKERY = Path(__file__).resolve().parent / "bakery"


def main() -> int:
    """Set the sample project up on a new database, and show it."""
    with TemporaryDirectory(prefix="steady-queue-demo-") as directory:
        os.environ["BAKERY_DATABASE"] = str(Path(directory) / "bakery.sqlite3")
        os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
        sys.path.insert(0, str(BAKERY))
        django.setup()
        call_command("migrate", verbosity=0)
        try:
            from show import show  # imports models, and so has to wait for Django's setup

            return show()
        except KeyboardInterrupt:
            print("\nStopped.")
            return 130
        finally:
            connections.close_all()


if __name__ == "__main__":
    sys.exit(main())
