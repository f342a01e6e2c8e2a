"""Django's task framework, from `django.tasks` (Django 6 and later) or from `django_tasks` (Django 5.2).

The only module that depends on which of the two is installed. Type checkers read the `django_tasks` names: their
shapes are the same and, unlike Django's, they have annotations.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

NATIVE = find_spec("django.tasks") is not None

if TYPE_CHECKING or not NATIVE:
    import django_tasks.checks  # noqa: F401  registers the framework's checks, also if its app is not installed
    import django_tasks.exceptions as _exceptions
    from django_tasks import signals, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_PRIORITY,
        DEFAULT_TASK_QUEUE_NAME,
        Task,
        TaskContext,
        TaskError,
        TaskResult,
        TaskResultStatus,
    )
    from django_tasks.exceptions import TaskException, TaskResultDoesNotExist, TaskResultMismatch
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json

    FRAMEWORK = "django_tasks"
    GenericTask = Task
    GenericTaskResult = TaskResult
else:
    import django.tasks.exceptions as _exceptions
    from django.tasks import signals, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_PRIORITY,
        DEFAULT_TASK_QUEUE_NAME,
        Task,
        TaskContext,
        TaskError,
        TaskResult,
        TaskResultStatus,
    )
    from django.tasks.exceptions import TaskException, TaskResultDoesNotExist, TaskResultMismatch
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json

    FRAMEWORK = "django.tasks"

    class GenericTask(Task):
        """Django's Task, subscriptable like the annotated one."""

        __slots__ = ()

        def __class_getitem__(cls, _parameters):
            return cls

    class GenericTaskResult(TaskResult):
        """Django's TaskResult, subscriptable like the annotated one."""

        __slots__ = ()

        def __class_getitem__(cls, _parameters):
            return cls


# The releases of django_tasks up to 0.12 spell these two with an `Error` at the end.
InvalidTask: type[TaskException] = getattr(_exceptions, "InvalidTask", None) or _exceptions.InvalidTaskError
InvalidTaskBackend: type[Exception] = (
    getattr(_exceptions, "InvalidTaskBackend", None) or _exceptions.InvalidTaskBackendError
)

__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS",
    "DEFAULT_TASK_PRIORITY",
    "DEFAULT_TASK_QUEUE_NAME",
    "FRAMEWORK",
    "NATIVE",
    "BaseTaskBackend",
    "GenericTask",
    "GenericTaskResult",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskException",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "normalize_json",
    "signals",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
