"""What the tests of the scheduler share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.configuration import Options
from steady_queue.models import RecurringExecution
from tests.support.runtime import in_thread, until

if TYPE_CHECKING:
    from datetime import datetime

ONLY_SCHEDULER = Options(workers=[], dispatchers=[])


def ticks(alias: str, key: str) -> list[datetime]:
    return [row.run_at for row in RecurringExecution.objects.using(alias).filter(task_key=key).order_by("run_at")]


async def has_ticks(alias: str, key: str, least: int) -> None:
    await until(lambda: in_thread(lambda: len(ticks(alias, key)) >= least), f"{key} does not fire")
