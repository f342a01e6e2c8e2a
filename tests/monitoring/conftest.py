"""A queue with tasks in every state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from steady_queue.monitoring.states import JobState
    from steady_queue.store.job import NewJob
    from tests.support.store.stores import SyncStore


@pytest.fixture
def store(database: str) -> SyncStore:
    """The store with which a test prepares and checks rows."""
    from tests.support.store.stores import SyncStore

    return SyncStore(database)


@pytest.fixture
def states(store: SyncStore) -> dict[JobState, NewJob]:
    """One task in each state. The ready one and the overdue one are in the queue "mail"."""
    from tests.support.store.states import make_all_states

    return make_all_states(store)
