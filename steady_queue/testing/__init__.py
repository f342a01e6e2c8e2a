"""For the tests of applications: run the tasks that a test enqueued, and assert which were enqueued.

The code of a worker claims, runs and settles the jobs, but one after another and over Django's own connection, and so
inside the test's transaction. In TestCase no `on_commit` callback runs: limited jobs stay blocked until `run_pending`.

    pending.py          runs the tasks: run_pending, arun_pending
    kept_reports.py     keeps what a task reports until it has ended
    deadline_timer.py   cancels an async task at its deadline
    assertions.py       which tasks are enqueued: enqueued, assert_enqueued, assert_not_enqueued
"""

from __future__ import annotations

from steady_queue.testing.assertions import assert_enqueued, assert_not_enqueued, enqueued
from steady_queue.testing.pending import arun_pending, run_pending

__all__ = ["arun_pending", "assert_enqueued", "assert_not_enqueued", "enqueued", "run_pending"]
