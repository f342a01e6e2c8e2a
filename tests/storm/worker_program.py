"""A user's manage.py with short timeouts: `python -m tests.storm.worker_program ALIAS`."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

#: Seconds: after which a process counts as dead, of its lease, and that tasks may continue after TERM.
ALIVE_SECONDS = 2.0
LEASE_SECONDS = ALIVE_SECONDS * 0.9
SHUTDOWN_SECONDS = 1.0


def main(alias: str) -> None:
    import steady_queue

    steady_queue.database = alias
    steady_queue.process_alive_threshold = timedelta(seconds=ALIVE_SECONDS)
    steady_queue.process_heartbeat_interval = timedelta(seconds=ALIVE_SECONDS / 10)
    steady_queue.shutdown_timeout = timedelta(seconds=SHUTDOWN_SECONDS)

    import django
    from django.conf import settings
    from django.core.management import execute_from_command_line

    # The tables of the application are in the same database.
    options: dict[str, Any] = {"commit_with": alias}
    settings.TASKS = {**settings.TASKS, "default": {**settings.TASKS["default"], "OPTIONS": options}}
    django.setup()

    from steady_queue.aio.maintenance import maintenance
    from tests.storm import control_tasks, tasks

    assert tasks  # they belong to no installed app: workers know what is imported
    assert control_tasks
    maintenance.INTERVAL_SECONDS = 1.0  # as many runs in this short time as otherwise in minutes
    execute_from_command_line(["manage.py", "steady_queue", "--async"])


if __name__ == "__main__":
    main(sys.argv[1])
