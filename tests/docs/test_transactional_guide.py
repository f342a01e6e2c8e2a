"""The examples of the guide to transactional tasks, run in a worker."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import tests.shop.models
from steady_queue.aio import running
from tests.shop.models import Customer
from tests.support.runtime import in_thread, until, values, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("queue", ["default"], indirect=True)]


@pytest.fixture
def example(example_of: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The examples as one module of tasks."""
    monkeypatch.setitem(sys.modules, "shop.models", tests.shop.models)
    return example_of("transactional-tasks")


async def test_the_tasks_of_the_guide_write_and_finish(queue: str, example: ModuleType) -> None:
    async def ask_registry(customer_id: int) -> str:
        return f"name of {customer_id}"

    def names() -> list[str]:
        return list(Customer.objects.order_by("pk").values_list("name", flat=True))

    vars(example).update(ask_registry=ask_registry, download=lambda url: url.split("/"))
    async with running(worker()):
        (key,) = await values(await example.register.aenqueue("Ada"))
        assert await values(await example.import_customers.aenqueue("Alan/Grace")) == [2]
        assert await values(await example.rename.aenqueue(key)) == [f"name of {key}"]
        await until(lambda: in_thread(has_welcomed))
    assert await in_thread(names) == [f"name of {key}", "Alan", "Grace"]


def has_welcomed() -> bool:
    from steady_queue.models import Job

    welcomes = Job.objects.filter(task_path__endswith=".send_welcome", finished_at__isnull=False)
    return welcomes.count() == 1
