from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def short_look_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler reads the entries several times a second."""
    from steady_queue.aio.scheduler import scheduler

    monkeypatch.setattr(scheduler, "LOOK_SECONDS", 0.2)


@pytest.fixture
def other_backend_task(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A task of a backend that is not Steady Queue's and that keeps the results of enqueued tasks."""
    from django.conf import settings
    from django.test import override_settings

    from steady_queue import task
    from steady_queue.jobs.compat import FRAMEWORK
    from steady_queue.jobs.registry import registry
    from tests.support.tasks import recording

    backend = {"BACKEND": f"{FRAMEWORK}.backends.dummy.DummyBackend", "QUEUES": []}
    with override_settings(TASKS={**settings.TASKS, "other": backend}):

        def foreign(name: str) -> None: ...

        foreign.__module__, foreign.__qualname__ = recording.__name__, "foreign"
        made = task(backend="other")(foreign)
        monkeypatch.setattr(recording, "foreign", made, raising=False)
        monkeypatch.setattr(registry, "_known", {})
        yield made
