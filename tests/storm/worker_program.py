"""A user's manage.py whose settings have little patience: `python -m tests.storm.worker_program ALIAS`."""

from __future__ import annotations

import sys
from datetime import timedelta

#: Seconds: when a process counts as dead, how long it trusts itself, how long tasks may go on after TERM.
ALIVE = 2.0
TRUST = ALIVE * 0.9
SHUTDOWN = 1.0


def main(alias: str) -> None:
    import steady_queue

    steady_queue.database = alias
    steady_queue.process_alive_threshold = timedelta(seconds=ALIVE)
    steady_queue.process_heartbeat_interval = timedelta(seconds=ALIVE / 10)
    steady_queue.shutdown_timeout = timedelta(seconds=SHUTDOWN)

    import django
    from django.core.management import execute_from_command_line

    django.setup()

    from steady_queue.aio.maintenance import maintenance
    from tests.storm import tasks

    assert tasks  # they belong to no installed app: workers know what is imported
    maintenance.INTERVAL_SECONDS = 1.0  # as many turns in this short time as there are in minutes otherwise
    execute_from_command_line(["manage.py", "steady_queue", "--async"])


if __name__ == "__main__":
    main(sys.argv[1])
