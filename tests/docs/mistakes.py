"""Typical mistakes of the first hour, each with the cause and the next step that its message must name.

`python -m tests.docs.mistake_projects` makes all of them and writes the table of docs/troubleshooting.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DRAIN = ("steady_queue", "--drain", "--async", "-v", "0")


@dataclass(frozen=True)
class Mistake:
    """A mistake: what is added to the files of the project, and the code or the command that shows the message.

    The message must contain `cause` and `next_step`. `before` is executed first, and `later` is added to the tasks
    after it.
    """

    title: str
    cause: str
    next_step: str
    settings: str = ""
    tasks: str = ""
    code: str = ""
    command: tuple[str, ...] = ()
    before: str = ""
    later: str = ""
    is_migrated: bool = True

    @property
    def name(self) -> str:
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


MISTAKES = [
    Mistake(
        "`steady_queue` is not in `INSTALLED_APPS`, and a task is enqueued",
        cause="INSTALLED_APPS",
        next_step="migrate",
        settings="INSTALLED_APPS.remove('steady_queue')",
        code="ask.enqueue('why?')",
    ),
    Mistake(
        "`TASKS` is not set (`manage.py check`)",
        cause="TASKS",
        next_step="steady_queue.backend.SteadyQueueBackend",
        settings="del TASKS",
        command=("check",),
    ),
    Mistake(
        "`enqueue()` before `migrate`",
        cause="tables",
        next_step="manage.py migrate",
        code="ask.enqueue('why?')",
        is_migrated=False,
    ),
    Mistake(
        "a worker before `migrate`",
        cause="lacks migrations",
        next_step="manage.py migrate",
        command=("steady_queue", "-v", "0"),
        is_migrated=False,
    ),
    Mistake(
        "`enqueue()` in a coroutine",
        cause="async",
        next_step="await ask.aenqueue(",
        code="async def view():\n    ask.enqueue('why?')\nasyncio.run(view())",
    ),
    Mistake(
        "an argument has a wrong name",
        cause="'cpy'",
        next_step="'copy'",
        code="send_receipt.enqueue(1, cpy=True)",
    ),
    Mistake(
        "an argument is missing",
        cause="'order'",
        next_step="(order, *, copy=False)",
        code="send_receipt.enqueue()",
    ),
    Mistake(
        "an argument cannot be stored",
        cause="TextIOWrapper",
        next_step="pass its name or its content",
        code="send_receipt.enqueue(sys.stdout)",
    ),
    Mistake(
        "a model instance that is not saved is an argument",
        cause="Order",
        next_step="save it first",
        code="send_receipt.enqueue(Order(number=1))",
    ),
    Mistake(
        "`using(run_after=5)`",
        cause="run_after",
        next_step="timedelta",
        code="ask.using(run_after=5)",
    ),
    Mistake(
        "`using(run_after=...)` with a naive `datetime`",
        cause="run_after",
        next_step="timezone",
        code="ask.using(run_after=datetime.datetime(2030, 1, 1))",
    ),
    Mistake(
        "a queue that `TASKS` does not have",
        cause="'mial'",
        next_step="QUEUES",
        code="ask.using(queue_name='mial')",
    ),
    Mistake(
        "a priority out of range",
        cause="1000",
        next_step="between -100 and 100",
        code="ask.using(priority=1000)",
    ),
    Mistake(
        "`@task` on a nested function",
        cause="nested",
        next_step="define the function at the top level of a module",
        code="def view():\n    @task\n    def nested(): pass\nview()",
    ),
    Mistake(
        "a task is enqueued with `delay()`, as in Celery",
        cause="'delay'",
        next_step=".enqueue(",
        code="send_receipt.delay(1)",
    ),
    Mistake(
        "`STEADY_QUEUE` is a dictionary",
        cause="STEADY_QUEUE",
        next_step="from steady_queue.configuration import Configuration",
        settings="STEADY_QUEUE = {'workers': [{'threads': 3}]}",
        command=("steady_queue",),
    ),
    Mistake(
        "`--threads many`",
        cause="--threads",
        next_step="integer",
        command=("steady_queue", "--threads", "many"),
    ),
    Mistake(
        "`--queues` has a queue that `TASKS` does not have",
        cause="'mial'",
        next_step="Did you mean 'mail'",
        command=(*DRAIN, "--queues", "mial"),
    ),
    Mistake(
        "SQLite with the default transaction mode (`manage.py check`)",
        cause="read transactions",
        next_step="'IMMEDIATE'",
        settings="del DATABASES['default']['OPTIONS']",
        command=("check",),
    ),
    Mistake(
        "`steady_queue.database` names no database (`manage.py check`)",
        cause="'quue'",
        next_step="The aliases are 'default'",
        settings="steady_queue.database = 'quue'",
        command=("check",),
    ),
    Mistake(
        "a misspelt option of the backend (`manage.py check`)",
        cause="'max_argument_bytes'",
        next_step="max_arguments_bytes",
        settings="TASKS['default']['OPTIONS'] = {'max_argument_bytes': 1000}",
        command=("check",),
    ),
    Mistake(
        "a schedule that is no crontab expression (`manage.py steady_queue check`)",
        cause="'every 5 minutes'",
        next_step="every=timedelta",
        tasks="@recurring(schedule='every 5 minutes', key='report')\n@task\ndef report(): pass",
        command=("steady_queue", "check"),
    ),
    Mistake(
        "a time zone that does not exist (`manage.py steady_queue check`)",
        cause="'Europe/Berln'",
        next_step="Europe/Berlin",
        tasks="@recurring(schedule='0 3 * * *', key='report', time_zone='Europe/Berln')\n@task\ndef report(): pass",
        command=("steady_queue", "check"),
    ),
    Mistake(
        "a concurrency key that does not fit the arguments of the task",
        cause="concurrency key",
        next_step="must take the arguments of the task",
        tasks="@limits_concurrency(key=lambda order, account: account, to=2)\n@task\ndef sync(order): pass",
        code="sync.enqueue(1)",
    ),
    Mistake(
        "a task was renamed while it waited",
        cause="shop.tasks has no task 'ask'",
        next_step="restore the old name and retry",
        before="ask.enqueue('why?')",
        later="del ask",
        command=DRAIN,
    ),
    Mistake(
        "`time.sleep()` in an async task",
        cause="shop.tasks.slow",
        next_step="asyncio.to_thread",
        tasks="@task\nasync def slow():\n    import time\n    time.sleep(5)",
        before="slow.enqueue()",
        command=DRAIN,
    ),
    Mistake(
        "the sync ORM in an async task",
        cause="shop.tasks.count",
        next_step="async methods of the ORM",
        tasks="@task\nasync def count():\n    return Order.objects.count()",
        before="count.enqueue()",
        command=DRAIN,
    ),
]
