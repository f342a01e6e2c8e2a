"""The arguments of `manage.py steady_queue`, by the actions that they belong to, and its help."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser

ACTIONS = ("run", "check", "health", "cancel", "status", "jobs", "queues", "processes")
#: How many ids or names an action takes; the others take any number.
MAX_IDS = {"run": 1, "check": 0, "health": 0, "status": 0}

DESCRIPTION = """\
Runs background tasks with the workers and dispatchers of settings.STEADY_QUEUE.

  manage.py steady_queue                   run each of them in a child process; this process supervises them
  manage.py steady_queue --async           run all of them in one event loop in this process
  manage.py steady_queue check             report all problems of settings, database and schema; start nothing
  manage.py steady_queue check --stored    report which stored tasks this code could not run
  manage.py steady_queue health            exit with 0 if the processes of this machine poll for tasks, else with 1
  manage.py steady_queue run ID            run one stored task in this process, and change nothing in the queue
  manage.py steady_queue cancel ID ...     cancel tasks; with --queue, --task or --status all that match
  manage.py steady_queue status            show the queue at a glance; with --watch until Ctrl-C
  manage.py steady_queue jobs              list tasks, show one, or change one, several or all that match
  manage.py steady_queue queues            list queues; pause, resume or clear them
  manage.py steady_queue processes         list processes, or ask them to stop
"""
EPILOG = """\
All options but --reload and --max-age can also be set in the environment, for example STEADY_QUEUE_THREADS=5 or
STEADY_QUEUE_ASYNC=1. All of these but --async and --drain can also be set in settings.py:
STEADY_QUEUE = Configuration.Options(...). The command line overrides the environment, which overrides the settings.

Stopping: TERM, or Ctrl-C, gives running tasks steady_queue.shutdown_timeout to finish. Async tasks that take longer
are cancelled and run again later. Sync tasks that still run are released by the supervisor after their process has
exited; with --async they fail with ProcessExitError. QUIT, or Ctrl-C twice, is immediate.

Output: -v 0 shows only warnings and errors, -v 2 also the start and the end of each task. A terminal has colours (not
with NO_COLOR=1) and a status line (not with -v 0, TERM=dumb or --log-format json).
"""


def add_all(parser: ArgumentParser) -> None:
    """Add the arguments of all actions."""
    parser.add_argument("action", nargs="?", default="run", choices=ACTIONS, help="default: run")
    parser.add_argument(
        "ids",
        nargs="*",
        metavar="ID",
        help="the id of a stored task, for run; one or more for cancel and jobs; names for queues and processes",
    )
    _add_what_runs(parser)
    _add_when_it_stops(parser)
    _add_output(parser)
    _add_check(parser)
    _add_replay(parser)
    _add_cancel(parser)
    _add_status(parser)
    _add_jobs(parser)
    _add_queues(parser)
    _add_processes(parser)
    _add_health(parser)


def _add_what_runs(parser: ArgumentParser) -> None:
    what = parser.add_argument_group("what runs")
    what.add_argument(
        "--async",
        action=BooleanOptionalAction,
        help="run everything in one event loop; a worker with processes=N gets N-1 child processes",
    )
    what.add_argument(
        "--queues",
        metavar="A,B*",
        help="run one worker for these queues, in this order, instead of the configured workers",
    )
    what.add_argument(
        "--exclude-queues",
        metavar="A,B*",
        help="queues that no worker of this command serves, for example slow*; replaces exclude_queues of the settings",
    )
    what.add_argument("--coroutines", metavar="N", help="number of async tasks that each worker runs at the same time")
    what.add_argument("--threads", metavar="N", help="number of sync tasks that each worker runs at the same time")
    what.add_argument("--processes", metavar="N", help="number of processes of each worker")
    what.add_argument(
        "--only-work",
        action=BooleanOptionalAction,
        help="run no dispatchers and no recurring tasks; scheduled tasks need a dispatcher elsewhere",
    )
    what.add_argument("--skip-recurring", action=BooleanOptionalAction, help="do not enqueue recurring tasks")


def _add_when_it_stops(parser: ArgumentParser) -> None:
    stops = parser.add_argument_group("when it stops")
    stops.add_argument(
        "--drain",
        action=BooleanOptionalAction,
        help="stop when its queues have no ready, blocked or running task, and none that is due within 5 s",
    )
    stops.add_argument("--max-tasks", metavar="N", help="replace a process after N tasks")
    stops.add_argument("--max-rss", metavar="MIB", help="replace a process when it uses MIB of memory")
    stops.add_argument(
        "--max-stuck-threads",
        metavar="N",
        help="replace a process when N of its threads run tasks that have timed out; by default all of a worker",
    )
    stops.add_argument("--reload", action="store_true", help="restart when the code changes; for development")


def _add_output(parser: ArgumentParser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument(
        "--log-format",
        metavar="text|json",
        help="format of all output: text or json; unless LOGGING configures 'steady_queue'",
    )


def _add_check(parser: ArgumentParser) -> None:
    check = parser.add_argument_group("check")
    check.add_argument(
        "--stored", action="store_true", help="bind the arguments of each stored task to this code; start nothing"
    )
    check.add_argument("--failed", action="store_true", help="with --stored: look at failed tasks as well")
    check.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object: with --stored, for cancel, status, jobs, queues and processes",
    )


def _add_replay(parser: ArgumentParser) -> None:
    replay = parser.add_argument_group("run ID")
    replay.add_argument("--rollback", action="store_true", help="roll back what the task writes to the databases")
    replay.add_argument("--pdb", action="store_true", help="start the debugger where the task raised its exception")
    replay.add_argument("--force", action="store_true", help="run the task although it runs now")


def _add_cancel(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("cancel, jobs")
    group.add_argument("--queue", metavar="NAME", help="the tasks of this queue")
    group.add_argument("--task", metavar="PATH", help="the calls of this task, for example shop.tasks.send_mail")
    group.add_argument(
        "--status",
        metavar="A,B",
        help="for cancel: the tasks that are scheduled, blocked, ready or running (default: all)",
    )
    group.add_argument("--reason", metavar="TEXT", help="why tasks are cancelled; stored with the error of each task")
    group.add_argument("--by", metavar="NAME", help="who; stored as well (default: the user of the operating system)")
    group.add_argument(
        "--no-input",
        "--noinput",
        "--yes",
        action="store_true",
        help="do not ask before tasks, queues or processes are changed",
    )


def _add_status(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("status")
    group.add_argument("--watch", action="store_true", help="show it every 2 s until Ctrl-C; on a terminal only")


def _add_jobs(parser: ArgumentParser) -> None:
    which = parser.add_argument_group("jobs: which tasks")
    which.add_argument("--state", metavar="STATE", help="failed, exhausted, lost, running, ready, late, scheduled, ...")
    which.add_argument("--error", metavar="CLASS", help="the class of the error, for example ValueError")
    which.add_argument("--key", metavar="KEY", help="the concurrency key")
    which.add_argument("--worker", metavar="NAME", help="the name or id of the process that runs the task, or ran it")
    which.add_argument("--since", metavar="WHEN", help="since a date, a time, or a span before now such as 30m or 2d")
    which.add_argument("--before", metavar="WHEN", help="before a date, a time, or a span before now")
    which.add_argument("--text", metavar="TEXT", help="text in the arguments")
    which.add_argument("--limit", metavar="N", help="how many tasks are listed (default: 50)")
    which.add_argument("--after", metavar="CURSOR", help="continue a list where the last one ended")
    change = parser.add_argument_group("jobs: change them")
    change.add_argument("--retry", action="store_true", help="run failed tasks again")
    change.add_argument("--discard", action="store_true", help="delete tasks that wait or have failed")
    change.add_argument("--run-now", action="store_true", help="run scheduled or blocked tasks now")
    change.add_argument("--cancel", action="store_true", help="cancel tasks that wait or run")


def _add_queues(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("queues")
    group.add_argument("--pause", action="store_true", help="workers claim no task of these queues")
    group.add_argument("--resume", action="store_true", help="workers claim tasks of these queues again")
    group.add_argument("--clear", action="store_true", help="delete the ready tasks of these queues")


def _add_processes(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("processes")
    group.add_argument("--stop", action="store_true", help="ask these processes to stop gracefully")


def _add_health(parser: ArgumentParser) -> None:
    health = parser.add_argument_group("health")
    health.add_argument("--max-age", metavar="S", help="maximum age of the last successful poll, in seconds")
