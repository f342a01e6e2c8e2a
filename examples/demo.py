"""Steady Queue at work: `make demo`, or `python examples/demo.py` where it is installed.

Makes a SQLite file in a temporary directory, enqueues a bakery's tasks in every way there is, runs them inside this
script, and tells what became of each. Exits with 1 when a task was lost, ran twice, or broke a limit.

    demo.py       this: a fresh database           witness.py    sees tasks start and end
    show.py       the demo itself                  report.py     the closing table
    progress.py   the line that moves              proof.py      what must be true at the end
    bakery/       the sample project; its kitchen/tasks.py is where to begin
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

BAKERY = Path(__file__).resolve().parent / "bakery"


def main() -> int:
    """Set the sample project up on a new database, and show it."""
    try:
        with TemporaryDirectory(prefix="steady-queue-demo-") as directory:
            os.environ["BAKERY_DATABASE"] = str(Path(directory) / "bakery.sqlite3")
            os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
            sys.path.insert(0, str(BAKERY))
            return set_up_and_show()
    except KeyboardInterrupt:
        print("Stopped.")
        return 130


def set_up_and_show() -> int:
    import django
    from django.core.management import call_command
    from django.db import connections

    django.setup()
    # Some loaves are burnt on purpose: the demo shows them itself.
    logging.getLogger("steady_queue").addFilter(lambda line: vars(line).get("event") != "JobFailedUnlogged")
    try:
        call_command("migrate", verbosity=0)
        from show import show  # imports models, and so has to wait for Django's setup

        return show()
    finally:
        connections.close_all()


if __name__ == "__main__":
    sys.exit(main())
