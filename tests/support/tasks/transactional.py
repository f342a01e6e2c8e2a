"""Tasks that are settled in the transaction in which they write."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import DatabaseError, connections, transaction

import steady_queue
from steady_queue import task
from steady_queue.concurrency import limits_concurrency
from steady_queue.errors import StoreUnavailable
from tests.shop.models import Customer
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.jobs.running.context import TaskContext


def write(name: str) -> None:
    Customer.objects.using(steady_queue.database).create(name=name)


def execute(text: str) -> None:
    with connections[steady_queue.database].cursor() as cursor:
        cursor.execute(text)


@task(transactional=True)
def writes(name: str) -> str:
    write(name)
    return name


@task(transactional=True)
def does_nothing() -> str:
    return "nothing"


@task(transactional=True)
def describes_connection() -> list[bool]:
    connection = connections[steady_queue.database]
    before = connection.in_atomic_block
    with transaction.atomic(using=steady_queue.database, savepoint=False):
        write("inside")
    with suppress(ZeroDivisionError), transaction.atomic(using=steady_queue.database):
        write("rolled back")
        raise ZeroDivisionError
    return [before, connection.in_atomic_block, connection.get_autocommit()]


@task(transactional=True)
def writes_and_raises(name: str) -> None:
    write(name)
    raise ValueError(name)


@task(transactional=True)
def writes_and_waits(name: str) -> str:
    """Write, and end when the gate is open."""
    write(name)
    task_record.enter("thread", name)
    task_record.gate.wait()
    task_record.leave("thread")
    return name


@task(transactional=True)
def waits_and_writes(name: str) -> str:
    """Write when the gate is open."""
    task_record.enter("thread", name)
    task_record.gate.wait()
    task_record.leave("thread")
    write(name)
    return name


@task(transactional=True, max_attempts=3, backoff=lambda error, result: 0)
def writes_in_the_second_attempt(name: str) -> str:
    write(name)
    task_record.enter("thread", name)
    task_record.leave("thread")
    if task_record.runs[name] == 1:
        raise ValueError(name)
    return name


@task(transactional=True, max_attempts=3, backoff=lambda error, result: 0)
def retries_after_lost_commit(name: str) -> str:
    return waits_and_writes.func(name)


@task(takes_context=True)
def tries_block_again(context: TaskContext, name: str) -> None:
    """Complete the task in a block; after an error, on a new connection, once more."""
    task_record.enter("thread", name)
    task_record.gate.wait()
    task_record.leave("thread")
    for _ in range(2):
        with suppress(StoreUnavailable):
            with context.completing(name):
                write(name)
            return
        connections[steady_queue.database].close()


@limits_concurrency(to=1, key="one", duration=timedelta(minutes=5))
@task(transactional=True)
def writes_alone(name: str) -> str:
    write(name)
    task_record.enter("limited", name)
    task_record.leave("limited")
    return name


@task(transactional=True)
def calls_back(name: str, how: str) -> str:
    def callback() -> None:
        task_record.began.append(how)
        if how == "raises":
            raise ValueError("after the commit")

    transaction.on_commit(callback, using=steady_queue.database)
    if how != "without a statement":
        write(name)
    assert not task_record.began
    return name


@task(transactional=True)
def ends_transaction(how: str) -> None:
    """Write, and try to end the transaction in one of many ways."""
    write(how)
    connection = connections[steady_queue.database]
    match how:
        case "closes":
            connection.close()
        case "set_rollback":
            transaction.set_rollback(True, using=steady_queue.database)
        case "set_autocommit":
            transaction.set_autocommit(True, using=steady_queue.database)
        case "commit":
            transaction.commit(using=steady_queue.database)
        case "durable":
            with transaction.atomic(using=steady_queue.database, durable=True):
                write("durable")
        case "leaves a block open":
            transaction.atomic(using=steady_queue.database).__enter__()
        case "catches an error":
            with suppress(DatabaseError):
                execute("SELECT * FROM no_such_table")
        case _:
            with suppress(Exception):  # the refusal is an error even if the task ignores it
                execute(how)
            write("afterwards")


@task(transactional=True)
def ends_transaction_of_driver(how: str) -> None:
    write(how)
    getattr(connections[steady_queue.database].connection, how)()
    write("afterwards")


@task(transactional=True)
def writes_elsewhere(name: str) -> None:
    write(name)
    transaction.atomic(using="default").__enter__()
    Customer.objects.using("default").count()


@task(takes_context=True)
def completes(context: TaskContext, name: str, then: str = "") -> Any:
    """Complete the task in a block, and do something afterwards."""
    task_record.enter("thread", name)
    with context.completing(f"result of {name}") as completion:
        write(name)
        if then == "sets the result":
            completion.result = "set"
    task_record.gate.wait()
    task_record.leave("thread")
    if then == "raises":
        raise ValueError("too late")
    if then == "twice":
        with context.completing():
            write("second")
    return {"returns": "another", "returns the same": f"result of {name}"}.get(then)


@task(takes_context=True)
def completes_after_error(context: TaskContext, name: str) -> None:
    with suppress(ZeroDivisionError), context.completing():
        write("first")
        raise ZeroDivisionError
    with context.completing("second"):
        write(name)


@task(takes_context=True)
def completes_in_block(context: TaskContext) -> None:
    with transaction.atomic(using=steady_queue.database), context.completing():
        write("in a block")


@task(takes_context=True)
def nests_completions(context: TaskContext) -> None:
    with context.completing("outer"):
        write("outer")
        with context.completing("inner"):
            write("inner")


@task(takes_context=True)
def waits_in_completion(context: TaskContext, name: str) -> None:
    with context.completing(name):
        write(name)
        task_record.enter("thread", name)
        task_record.gate.wait()
        task_record.leave("thread")


@task(takes_context=True)
async def completes_async(context: TaskContext, name: str, then: str = "") -> Any:
    await sync_to_async(write)(f"before {name}")
    value = await context.complete_in_transaction(write_and_return, name)
    task_record.enter("async", value)
    try:
        while not task_record.gate.is_set():
            await sync_to_async(task_record.gate.wait, thread_sensitive=False)(0.01)
    finally:
        task_record.leave("async")
    if then == "raises":
        raise ValueError("too late")
    return None


def write_and_return(name: str) -> str:
    write(name)
    return f"result of {name}"


kept_contexts: list[TaskContext] = []


@task(takes_context=True)
def keeps_context(context: TaskContext) -> None:
    kept_contexts.append(context)


@task(transactional=True, max_attempts=3, backoff=lambda error, result: 0)
def ends_transaction_unseen(how: str) -> None:
    """End the transaction where only its marker or its state shows it."""
    write(how)
    task_record.enter("thread", how)
    task_record.leave("thread")
    connection = connections[steady_queue.database]
    connection.connection.commit()
    if "begins again" in how:
        connection.connection.cursor().execute("BEGIN")
    if "raises" in how:
        raise ValueError(how)
