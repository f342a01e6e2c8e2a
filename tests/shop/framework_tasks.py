"""Tasks made by the framework's own decorator."""

from __future__ import annotations

from typing import Any

from django.utils.module_loading import import_string

from steady_queue.jobs.compat import FRAMEWORK

task: Any = import_string(f"{FRAMEWORK}.task")


@task  # type: ignore[untyped-decorator]
def multiply(a: int, b: int = 1) -> int:
    return a * b


@task(priority=-5, queue_name="reports", enqueue_on_commit=False)  # type: ignore[untyped-decorator]
async def total(*amounts: int) -> int:
    return sum(amounts)
