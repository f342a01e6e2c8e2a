"""The work behind the scenes of the shop: tasks of every kind, so that the dashboard has something to show."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import timedelta

from steady_queue import Interrupted, TaskContext, aenqueue_all, exponential, task
from steady_queue.concurrency import limits_concurrency
from steady_queue.recurring_task import recurring

SHELVES = 12
SUPPLIERS = ("Lumen", "Porcelain & Co", "Fairground")
ROWS = 40


class SupplierError(Exception):
    """A supplier does not answer."""


class OutOfPaperError(Exception):
    """The printer has no paper."""


@recurring(every=timedelta(seconds=10), key="count the stock", description="Counts each shelf")
@task(queue_name="stock")
async def count_stock() -> None:
    """A task that enqueues other tasks, all in one transaction."""
    await aenqueue_all([count_shelf.bind(shelf) for shelf in range(1, SHELVES + 1)])


@task(queue_name="stock")
def count_shelf(shelf: int) -> int:
    """Sync: up to three at a time, in the threads of the worker."""
    time.sleep(random.uniform(0.05, 0.4))
    return random.randint(0, 90)


@recurring(every=timedelta(minutes=1), key="import the catalogue", args=["Lumen"], skip_if_unfinished=True)
@task(queue_name="stock", takes_context=True)
async def import_catalogue(context: TaskContext, supplier: str) -> int:
    """Takes 40 seconds, shows its progress and a log, and continues where it was if its process is stopped."""
    context.log(f"the catalogue of {supplier} has {ROWS} rows")
    for row in range(context.saved or 0, ROWS):
        if context.is_stopping:
            await context.acheckpoint(row)
            raise Interrupted("the worker stops")
        if row % 10 == 7:
            context.log(f"row {row} has no picture")
        await asyncio.sleep(1)
        context.progress(row + 1, ROWS, f"row {row + 1}")
    return ROWS


@recurring(every=timedelta(seconds=30), key="update the prices", description="Asks each supplier")
@task(queue_name="stock")
async def update_prices() -> None:
    await aenqueue_all([fetch_prices.bind(supplier, api_key="secret-1234") for supplier in SUPPLIERS])


@limits_concurrency(key="price service", to=1)
@task(queue_name="stock", max_attempts=4, backoff=exponential(first=5, longest=60))
async def fetch_prices(supplier: str, api_key: str) -> int:
    """One at a time, the others are blocked. One supplier often does not answer: the task is retried."""
    await asyncio.sleep(2)
    if supplier == "Fairground" and random.random() < 0.7:
        raise SupplierError(f"{supplier} does not answer")
    return random.randint(10, 500)


@task(queue_name="warehouse")
def print_label(order: int, paper: bool = False) -> str:
    """Fails until it is retried with `paper`."""
    if not paper:
        raise OutOfPaperError(f"no paper for the label of order {order}")
    return f"label {order}"


@task(queue_name="mail", expires_after=timedelta(days=2))
async def send_newsletter(group: str) -> str:
    return f"sent to {group}"


@recurring(schedule="0 3 * * *", key="sales of the day", args=["day"], time_zone="Europe/Berlin")
@recurring(schedule="30 6 * * mon", key="sales of the week", args=["week"], time_zone="America/New_York")
@task(queue_name="reports", priority=-10)
def report_sales(period: str) -> str:
    return f"the sales of the {period}"
