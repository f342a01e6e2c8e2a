"""The examples of the guides to expiry, cancellation and uniqueness, as modules of tasks that are run."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from steady_queue.models import FailedExecution, Job
from steady_queue.testing import run_pending

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def test_the_example_of_expiry(database: str, example_of: Callable[..., ModuleType]) -> None:
    module = example_of("expiry", 0)
    module.book("0171 4711")
    code, reminder = Job.objects.using(database).order_by("pk")
    assert code.expires_at is not None
    assert timedelta(minutes=4) < code.expires_at - timezone.now() <= timedelta(minutes=5)
    assert reminder.scheduled_at is not None
    assert reminder.expires_at == reminder.scheduled_at + timedelta(hours=1)
    Job.objects.using(database).filter(pk=code.pk).update(expires_at=timezone.now())
    (result,) = run_pending()
    assert (result.id, result.state) == (str(code.pk), "expired")  # type: ignore[attr-defined]


def test_the_example_of_cancellation(database: str, example_of: Callable[..., ModuleType]) -> None:
    module = example_of("cancellation", 0)
    module.rebuild.enqueue(3)
    module.withdraw()
    assert run_pending() == []
    messages = FailedExecution.objects.using(database).order_by("pk").values_list("message", flat=True)
    assert list(messages) == ["cancelled: the index is new", "cancelled by Ada: the customer has left"]


def test_the_first_example_of_uniqueness(database: str, example_of: Callable[..., ModuleType]) -> None:
    module = example_of("uniqueness", 0)
    first = module.request_synchronisation(1)
    assert module.request_synchronisation(1) == first
    assert module.request_synchronisation(2) != first
    assert len(run_pending()) == 2


def test_the_recipe_for_debounce(database: str, example_of: Callable[..., ModuleType]) -> None:
    module = example_of("uniqueness", 1)
    for document in (1, 1, 2, 1):
        module.document_changed(document)
    assert Job.objects.using(database).count() == 2
    assert [result.args for result in run_pending(including_scheduled=True)] == [[2], [1]]


def test_the_recipe_for_throttle(database: str, example_of: Callable[..., ModuleType]) -> None:
    module = example_of("uniqueness", 2)
    first = module.send_digest.enqueue(1)
    run_pending()
    assert module.send_digest.enqueue(1).id == first.id
    assert module.send_digest.enqueue(2).id != first.id
