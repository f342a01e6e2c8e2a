"""The pages of the dashboard, by their models. A project with an admin site of its own registers them there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.dashboard.jobs.list_page import JobListPage
from steady_queue.dashboard.limit_page import LimitPage
from steady_queue.dashboard.overview_page import OverviewPage
from steady_queue.dashboard.process_page import ProcessPage
from steady_queue.dashboard.queue_page import QueuePage
from steady_queue.dashboard.recurring.changes import RecurringTaskPage
from steady_queue.models import Job, Process
from steady_queue.models.pages import Limit, Overview, Queue
from steady_queue.models.recurring import RecurringTask

if TYPE_CHECKING:
    from django.db.models import Model

    from steady_queue.dashboard.page import PageAdmin

PAGES: dict[type[Model], type[PageAdmin]] = {
    Overview: OverviewPage,
    Job: JobListPage,
    Queue: QueuePage,
    Process: ProcessPage,
    Limit: LimitPage,
    RecurringTask: RecurringTaskPage,
}
