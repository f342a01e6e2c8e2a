"""The names under which the seed's users import things."""

from __future__ import annotations

import pytest
from django.db import models
from django.utils.module_loading import import_string

pytestmark = pytest.mark.contract


@pytest.mark.parametrize(
    "path",
    [
        "steady_queue.arguments.DeserializationError",
        "steady_queue.arguments.SerializationError",
        "steady_queue.backend.SteadyQueueBackend",
        "steady_queue.concurrency.limits_concurrency",
        "steady_queue.configuration.Configuration.Dispatcher",
        "steady_queue.configuration.Configuration.Options",
        "steady_queue.configuration.Configuration.Worker",
        "steady_queue.db_router.SteadyQueueRouter",
        "steady_queue.processes.ProcessExitError",
        "steady_queue.processes.ProcessMissingError",
        "steady_queue.processes.ProcessPrunedError",
        "steady_queue.recurring_task.recurring",
        "steady_queue.SteadyQueueTask",
        "steady_queue.task",
    ],
)
def test_a_name_of_the_seed_can_be_imported(path: str) -> None:
    module, _, name = path.partition(".Configuration.")
    found = import_string(f"{module}.Configuration" if name else path)
    assert callable(getattr(found, name) if name else found)


@pytest.mark.parametrize("name", ["DeserializationError", "SerializationError"])
def test_errors_of_arguments_are_value_errors(name: str) -> None:
    assert issubclass(import_string(f"steady_queue.arguments.{name}"), ValueError)


@pytest.mark.parametrize("name", ["ProcessExitError", "ProcessMissingError", "ProcessPrunedError"])
def test_errors_of_processes_are_runtime_errors(name: str) -> None:
    assert issubclass(import_string(f"steady_queue.processes.{name}"), RuntimeError)


@pytest.mark.parametrize(
    "name",
    [
        *("Job", "ReadyExecution", "ScheduledExecution", "BlockedExecution", "ClaimedExecution", "FailedExecution"),
        *("Pause", "Process", "RecurringExecution", "RecurringTask", "Semaphore"),
    ],
)
def test_a_model_of_the_seed_can_be_imported(name: str) -> None:
    assert issubclass(import_string(f"steady_queue.models.{name}"), models.Model)
