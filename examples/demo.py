"""A demonstration of Steady Queue: `make demo`, or `python examples/demo.py` where it is installed.

Creates a SQLite file in a temporary directory, enqueues the tasks of a bakery in every possible way, runs them in this
script, and prints their outcomes. Exits with 1 if a task was lost, ran twice, or exceeded a limit.

    demo.py       this script: creates the database     recorder.py   records when tasks start and end
    show.py       runs the demonstration                report.py     prints the table and the summary
    progress.py   the progress line                     proof.py      verifies the outcome
    colours.py    the colours of the output
    bakery/       the sample project; start reading at kitchen/tasks.py
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

BAKERY = Path(__file__).resolve().parent / "bakery"


def main() -> int:
    """Run the demonstration on a new database."""
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
    # Some tasks fail on purpose: the report counts them.
    logging.getLogger("steady_queue").addFilter(lambda line: vars(line).get("event") != "JobFailedUnlogged")
    try:
        call_command("migrate", verbosity=0)
        from show import show  # imports models, which is possible only after django.setup()

        return show()
    finally:
        connections.close_all()


if __name__ == "__main__":
    sys.exit(main())
