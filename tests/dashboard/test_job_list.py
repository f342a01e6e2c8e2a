"""Lists of tasks by state: tabs, filters, pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.monitoring.states import JobState
from tests.support.store.jobs import fail_jobs, job, later, limited
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from django.test import Client

LIST = "/admin/steady_queue/job/"


def read(client: Client, url: str = LIST, status: int = 200) -> str:
    response = client.get(url)
    assert response.status_code == status, response
    return response.content.decode()


def test_the_page_set_of_tasks_opens_on_each_database(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    failed, blocked, holder, scheduled = job(), limited(), limited(), job(scheduled_at=later())
    fail_jobs(store, failed)
    store.enqueue(holder, blocked, scheduled)
    for state in JobState:
        assert f'?state={state}" aria-current="page"' in read(superuser, f"{LIST}?state={state}")
    page = read(superuser)
    for one in (failed, blocked, holder, scheduled):
        assert f'value="{one.id}"' in page
        assert str(one.id) in read(superuser, f"{LIST}{one.id}/")
