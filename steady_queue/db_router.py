"""Routers for a queue in its own database: `DATABASE_ROUTERS = ["steady_queue.db_router.SteadyQueueRouter"]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import steady_queue

if TYPE_CHECKING:
    from django.db.models import Model

APP_LABEL = "steady_queue"


class SteadyQueueRouter:
    """Routes the queue's tables to `steady_queue.database` and has no opinion about other apps.

    Other apps may share that database, and it may be the default database.
    """

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        return steady_queue.database if model._meta.app_label == APP_LABEL else None

    def db_for_write(self, model: type[Model], **hints: Any) -> str | None:
        return self.db_for_read(model, **hints)

    def allow_relation(self, one: Model, other: Model, **hints: Any) -> bool | None:
        return True if one._meta.app_label == other._meta.app_label == APP_LABEL else None

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool | None:
        return db == steady_queue.database if app_label == APP_LABEL else None


class SteadyQueueOnlyRouter(SteadyQueueRouter):
    """Also keeps the tables of other apps out of that database, unless it is the default database."""

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool | None:
        if app_label != APP_LABEL and db == steady_queue.database != "default":
            return False
        return super().allow_migrate(db, app_label, model_name, **hints)
