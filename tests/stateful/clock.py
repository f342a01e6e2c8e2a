"""Advances time: a test cannot set the clock of a database, so the rows are moved into the past instead."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.apps import apps
from django.db.models import F

from steady_queue.store.ids import uuid_of
from tests.support.store.jobs import new_job_id

if TYPE_CHECKING:
    from uuid import UUID

HOUR = timedelta(hours=1)
#: What is meant by "in an earlier hour": far from either end of an hour, so that the time of the test does not matter.
HALF = timedelta(minutes=30)

_TIMES = (
    ("scheduledexecution", "scheduled_at"),
    ("claimedexecution", "claimed_at"),
    ("failedexecution", "failed_at"),
    ("job", "finished_at"),
    ("job", "expires_at"),
    ("expiry", "expires_at"),
    ("uniquekey", "held_until"),
    ("process", "last_heartbeat_at"),
)


def make_rows_older(alias: str, hours: int) -> None:
    """Make everything that is stored so many hours older."""
    for table, column in _TIMES:
        manager = apps.get_model("steady_queue", table)._base_manager.using(alias)
        manager.exclude(**{column: None}).update(**{column: F(column) - hours * HOUR})


def id_in(hour: int) -> UUID:
    """The id of a job that is made in this hour after the beginning: ids begin with their time in milliseconds."""
    return uuid_of(new_job_id().int + (int(hour * HOUR.total_seconds() * 1000) << 80))
