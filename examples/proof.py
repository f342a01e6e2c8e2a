"""Verifies the outcome of the demonstration: the database and the recorder must agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from kitchen import day
from kitchen.models import Order
from kitchen.ovens import Oven, ovens
from kitchen.tasks import knead, print_label

from steady_queue.models import Job
from steady_queue.store.job import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from show import Run

    from steady_queue.store.job import JobRecord


def find_problems(run: Run) -> list[str]:
    """All expectations that are not met."""
    jobs, ids, runs = run.jobs, set(run.ids), run.recorder.runs
    counts = {status.value: count for status in Status if (count := sum(job.status is status for job in jobs))}
    twice = sum(count > 1 for count in runs.values())
    never = len(ids - runs.keys())
    checks = {
        f"of {day.TASKS} tasks {len(ids)} were enqueued": len(ids) == day.TASKS,
        f"of {len(ids)} tasks {len(jobs)} are in the database": len(jobs) == len(ids),
        f"the tasks have the statuses {counts}": counts == {"finished": day.TASKS - day.BURNT, "failed": day.BURNT},
        f"{never} tasks never ran": never == 0,
        f"{twice} tasks ran twice": twice == 0,
        "a task has not exactly one attempt in the database": all(job.attempts == 1 for job in jobs),
        "a task ran that was not enqueued": runs.keys() <= ids,
        "the order that was rolled back has a task": Job.objects.count() == day.TASKS,
        "an order has no label": not Order.objects.filter(labelled_at=None).exists(),
        "an order was not delivered": not Order.objects.filter(delivered_at=None).exists(),
        "an oven held too many loaves": all(oven.most_loaves <= Oven.ROOM for oven in ovens.values()),
        "the tasks of the morning did not start in order": started_in_order(jobs),
    }
    return [problem for problem, is_met in checks.items() if not is_met]


def started_in_order(jobs: Sequence[JobRecord]) -> bool:
    """Whether the waiting tasks started in the order of the queues, and by priority within a queue."""
    waiting = {print_label.module_path, knead.module_path}
    started = sorted(
        (job.started_at, settings.QUEUES.index(job.queue_name), -job.priority)
        for job in jobs
        if job.started_at and job.task_path in waiting
    )
    ranks = [rank for _, *rank in started]
    return ranks == sorted(ranks)
