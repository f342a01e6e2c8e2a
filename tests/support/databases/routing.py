"""The router of the suite, whose queue moves from database to database."""

from __future__ import annotations

from typing import Any

from steady_queue.db_router import SteadyQueueRouter


class EveryDatabase(SteadyQueueRouter):
    """Every database has the queue's tables, and its models are those of the database that holds it now.

    The tables of the admin are in the default database only.
    """

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool | None:
        return db == "default" if app_label in ("admin", "auth", "sessions") else None
