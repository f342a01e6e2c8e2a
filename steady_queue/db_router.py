"""Routers for a queue in a database of its own: `DATABASE_ROUTERS = ["steady_queue.db_router.SteadyQueueRouter"]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import steady_queue

if TYPE_CHECKING:
    from django.db.models import Model

APP = "steady_queue"


class SteadyQueueRouter:
    """Sends the queue's tables to `steady_queue.database`, whichever that is, and says nothing of other apps.

    So the database may be shared with them, or be the default one.
    """

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        return steady_queue.database if model._meta.app_label == APP else None

    def db_for_write(self, model: type[Model], **hints: Any) -> str | None:
        return self.db_for_read(model, **hints)

    def allow_relation(self, one: Model, other: Model, **hints: Any) -> bool | None:
        return True if one._meta.app_label == other._meta.app_label == APP else None

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool | None:
        return db == steady_queue.database if app_label == APP else None


class SteadyQueueOnlyRouter(SteadyQueueRouter):
    """The same, and keeps other apps out of that database, unless it is the default one."""

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool | None:
        if app_label != APP and db == steady_queue.database != "default":
            return False
        return super().allow_migrate(db, app_label, model_name, **hints)
