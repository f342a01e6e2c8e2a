"""The tasks of the seed's README, unchanged except for what could not be parsed."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import django
from django.utils.module_loading import import_string

from steady_queue import concurrency
from steady_queue.jobs.compat import FRAMEWORK

if TYPE_CHECKING:
    from tests.shop.models import Bundle, Contact

#: `from django_tasks import task` there; `from django.tasks import task` where Django has it.
task: Any = import_string(f"{FRAMEWORK}.task")
#: The decorator of Django 6.0 takes no options of backends; that of this package does.
task_with_options: Any = import_string("steady_queue.task") if django.VERSION[:2] == (6, 0) else task
limits_concurrency: Any = concurrency.limits_concurrency


@task()
def greet(name: str, times: int = 1) -> None:
    for _ in range(times):
        print(f"Hello, {name}")  # noqa: T201


@task(priority=10, queue_name="real_time", backend="steady_queue")
def tralalero() -> None:
    print("tralala")  # noqa: T201


@task(backend="anything")
def note(name: str) -> str:
    """Not of the seed: it can be put into any queue."""
    return name


#: What `keep` was called with.
kept: list[tuple[Any, Any]] = []


@task()
def keep(*args: Any, **kwargs: Any) -> None:
    """Not of the seed: it shows what a task gets."""
    kept.append((args, kwargs))


max_concurrent_executions = 2
max_timedelta_to_guarantee_concurrency_limit = timedelta(minutes=3)
concurrency_group = "my group"


@limits_concurrency(
    key=lambda arg1, arg2, **kwargs: f"{arg1}/{arg2}",
    to=max_concurrent_executions,
    duration=max_timedelta_to_guarantee_concurrency_limit,
    group=concurrency_group,
)
@task()
def my_task(arg1: Any, arg2: Any, **kwargs: Any) -> None:
    pass


@limits_concurrency(key="all")
@task()
def my_lonely_task() -> None:
    pass


class Together:
    """How many of the tasks below ran at once, at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


together = Together()


@limits_concurrency(to=2, key=lambda contact: contact.account_id, duration=timedelta(minutes=5))
@task()
def deliver_announcement(contact: Contact) -> int:
    with together:
        return int(contact.pk)


@limits_concurrency(key=lambda contact: contact.pk, duration=timedelta(minutes=15), group="contact_tasks")
@task()
def contact_action(contact: Contact) -> str:
    with together:
        return str(contact)


@limits_concurrency(key=lambda bundle: bundle.contact_id, duration=timedelta(minutes=15), group="contact_tasks")
@task()
def bundle_action(bundle: Bundle) -> str:
    with together:
        return str(bundle)


# Sets the default enqueueing behavior for all task instances
@task_with_options(enqueue_on_commit=False)
def my_committed_task() -> None:
    pass
