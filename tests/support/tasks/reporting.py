"""Tasks that save, report and stop early."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.db import transaction

import steady_queue
from steady_queue import Interrupted, task
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue import TaskContext


# -- metadata ---------------------------------------------------------------------------------------------------------


@task(takes_context=True)
async def changes_metadata(context: TaskContext, key: str, value: Any) -> dict[str, Any]:
    before = dict(context.metadata)
    context.metadata[key] = value
    await context.asave_metadata()
    return before


@task(takes_context=True)
def changes_metadata_in_thread(context: TaskContext, key: str, value: Any) -> dict[str, Any]:
    before = dict(context.metadata)
    context.metadata[key] = value
    context.save_metadata()
    return before


@task(takes_context=True)
async def tries_wrong_values(context: TaskContext) -> list[str]:
    errors = []
    context.metadata["wrong"] = {1, 2}
    for call in (context.asave_metadata, lambda: context.acheckpoint("x" * 300_000)):
        try:
            await call()
        except (TypeError, ValueError) as error:
            errors.append(str(error))
    return [*errors, *_try_wrong_reports(context)]


@task(takes_context=True)
def tries_wrong_values_in_thread(context: TaskContext) -> list[str]:
    errors = []
    context.metadata["wrong"] = {1, 2}
    for call in (context.save_metadata, lambda: context.checkpoint("x" * 300_000)):
        try:
            call()
        except (TypeError, ValueError) as error:
            errors.append(str(error))
    return [*errors, *_try_wrong_reports(context)]


def _try_wrong_reports(context: TaskContext) -> list[str]:
    wrong: list[Any] = [(-1,), (float("nan"),), ("1",), (True,), (1, float("inf")), (1, 2, 3), (1, 2, "x" * 2000)]
    errors = []
    for values in wrong:
        try:
            context.progress(*values)
        except (TypeError, ValueError) as error:
            errors.append(str(error))
    line: Any = 5
    try:
        context.log(line)
    except TypeError as error:
        errors.append(str(error))
    return errors


@task(takes_context=True)
async def saves_in_sync_form(context: TaskContext) -> None:
    context.checkpoint(1)


# -- checkpoints ------------------------------------------------------------------------------------------------------


@task(takes_context=True, max_attempts=2, backoff=lambda error, result: 0)
async def fails_after_checkpoint(context: TaskContext) -> list[Any]:
    before = context.saved
    await context.acheckpoint({"row": 7, "names": ["ä"]})
    if before is None:
        raise RuntimeError("the first attempt")
    return [before, context.saved]


@task(takes_context=True)
def is_interrupted_after_checkpoint_in_thread(context: TaskContext) -> list[Any]:
    before = context.saved
    context.checkpoint({"row": 7, "names": ["ä"]})
    if before is None:
        raise Interrupted
    return [before, context.saved]


@task(takes_context=True)
def rolls_back_its_checkpoint(context: TaskContext) -> Any:
    if context.saved is not None:
        return context.saved
    context.checkpoint("committed")
    with transaction.atomic(using=steady_queue.database):
        context.checkpoint("rolled back")
        raise Interrupted


@task(takes_context=True)
def saves_when_opened(context: TaskContext) -> None:
    task_record.enter("thread", "saves_when_opened")
    task_record.gate.wait()
    context.checkpoint("late")


@task(takes_context=True)
async def saves_when_opened_async(context: TaskContext) -> None:
    task_record.enter("async", "saves_when_opened")
    await task_record.wake_event.wait()
    await context.acheckpoint("late")


# -- reports ----------------------------------------------------------------------------------------------------------


@task(takes_context=True)
async def reports(context: TaskContext, count: int) -> None:
    for number in range(1, count + 1):
        context.progress(number, count, f"row {number}")
        context.log(f"line {number}")


@task(takes_context=True)
def reports_in_thread(context: TaskContext, count: int) -> None:
    for number in range(1, count + 1):
        context.progress(number, count, f"row {number}")
        context.log(f"line {number}")


@task(takes_context=True, transactional=True)
def reports_in_its_transaction(context: TaskContext) -> None:
    context.checkpoint("in the transaction")
    context.progress(1, 1)
    context.log("line")


@task(takes_context=True)
async def reports_and_waits(context: TaskContext) -> None:
    context.progress(1, 3, "one")
    context.log("first line")
    task_record.enter("async", "reports_and_waits")
    while True:
        if task_record.gate.is_set():
            break
        await asyncio.sleep(0.01)
    context.progress(3, 3)


@task(takes_context=True)
def reports_and_waits_in_thread(context: TaskContext) -> None:
    context.progress(1, 3, "one")
    context.log("first line")
    task_record.enter("thread", "reports_and_waits")
    task_record.gate.wait()
    context.progress(3, 3)


@task(takes_context=True)
async def reports_often(context: TaskContext, number: int) -> None:
    task_record.enter("async", number)
    done = 0
    while not task_record.gate.is_set():
        done += 1
        context.progress(done, message=f"task {number}")
        await asyncio.sleep(0.1)


@task(takes_context=True)
def holds_its_row(context: TaskContext) -> None:
    """Holds its job row locked while it reports."""
    with transaction.atomic(using=steady_queue.database):
        context.checkpoint("in a transaction")
        context.progress(1, 2)
        task_record.enter("thread", "holds_its_row")
        task_record.gate.wait()


@task(takes_context=True)
async def logs_much(context: TaskContext, lines: int, characters: int) -> None:
    for number in range(lines):
        context.log(f"{number} " + "x" * characters)


# -- interruption -----------------------------------------------------------------------------------------------------


@task(takes_context=True)
async def counts_until_stopped(context: TaskContext, upto: int) -> list[int]:
    """Continues where the attempt before was interrupted; returns the rows of this one."""
    start = context.saved or 0
    rows = []
    for row in range(start, upto):
        rows.append(row)
        if row == start:
            task_record.enter("async", row)
            await context.stopping()
        if context.is_stopping:
            await context.acheckpoint(row + 1)
            context.log(f"interrupted after row {row}")
            raise Interrupted("the process stops")
    return rows


@task(takes_context=True)
def counts_until_stopped_in_thread(context: TaskContext, upto: int) -> list[int]:
    start = context.saved or 0
    rows = []
    for row in range(start, upto):
        rows.append(row)
        if row == start:
            task_record.enter("thread", row)
            while not context.is_stopping:
                threading.Event().wait(0.01)
        if context.is_stopping:
            context.checkpoint(row + 1)
            context.log(f"interrupted after row {row}")
            raise Interrupted("the process stops")
    return rows


@task(takes_context=True)
async def imports_rows(context: TaskContext, file: str, upto: int) -> int:
    """A long import: writes each row into the file, with the attempt, until the file `{file}.go` exists."""
    for row in range(context.saved or 0, upto):
        _write_row(file, row)
        await context.acheckpoint(row + 1)
        context.progress(row + 1, upto)
        while not _may_go_on(file):
            if context.is_stopping:
                raise Interrupted
            await asyncio.sleep(0.01)
    return upto


@task(takes_context=True)
def imports_rows_in_thread(context: TaskContext, file: str, upto: int) -> int:
    for row in range(context.saved or 0, upto):
        _write_row(file, row)
        context.checkpoint(row + 1)
        context.progress(row + 1, upto)
        while not _may_go_on(file):
            if context.is_stopping:
                raise Interrupted
            threading.Event().wait(0.01)
    return upto


def _may_go_on(file: str) -> bool:
    return Path(f"{file}.go").exists()


def _write_row(file: str, row: int) -> None:
    with Path(file).open("a") as rows:
        rows.write(f"{row}\n")
