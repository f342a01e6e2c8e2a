"""Prepares the example: its tables, a user of the dashboard who may do everything, and tasks in every state."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand

from steady_queue import actions
from steady_queue.models import Job
from stock import tasks

NAME = "demo"


class Command(BaseCommand):
    help = "Create the tables and the superuser 'demo' with the password in DEMO_PASSWORD, and enqueue the first tasks."

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        user, _ = get_user_model().objects.get_or_create(username=NAME, is_staff=True, is_superuser=True)
        user.set_password(os.environ["DEMO_PASSWORD"])
        user.save()
        if not Job.objects.exists():
            enqueue_first_tasks()


def enqueue_first_tasks() -> None:
    """Enqueue what recurring tasks do not: tasks that fail, that wait for a time, and that wait in a paused queue."""
    for order in range(1001, 1004):
        tasks.print_label.enqueue(order)
    for days, group in enumerate(("teapot lovers", "lamp lovers", "unicorn lovers"), 1):
        tasks.send_newsletter.using(run_after=timedelta(days=days)).enqueue(group)
    for period in ("month", "quarter", "year"):
        tasks.report_sales.enqueue(period)
    actions.pause("reports")
    tasks.import_catalogue.enqueue("Porcelain & Co")
    tasks.update_prices.enqueue()
    tasks.count_stock.enqueue()
