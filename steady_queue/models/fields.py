"""Column types that behave the same on every database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from steady_queue.store.names import KEY_LENGTH, NAME_LENGTH
from steady_queue.store.operations.database import charset

__all__ = ["KEY_LENGTH", "NAME_LENGTH", "MomentField", "NameField"]

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    _CharField = models.CharField[Any, Any]
    _DateTimeField = models.DateTimeField[Any, Any]
else:
    _CharField = models.CharField  # subscriptable for type checkers only
    _DateTimeField = models.DateTimeField


def bytewise_collation(connection: BaseDatabaseWrapper) -> str | None:
    """The collation under which two names are equal only when their bytes are."""
    if connection.vendor == "postgresql":
        return "C"
    if connection.vendor == "mysql":
        return charset.bytewise_collation(is_mariadb=getattr(connection, "mysql_is_mariadb", False))
    return None


class NameField(_CharField):
    """Text compared byte by byte, on every database."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        return {**super().db_parameters(connection), "collation": bytewise_collation(connection)}


class _MomentField(_DateTimeField):
    """A time that is stored in UTC and has its zone, also in a project without USE_TZ.

    Django's own field would take and return naive times there: in UTC on MySQL and SQLite, local ones on PostgreSQL.
    """

    def get_db_converters(self, connection: BaseDatabaseWrapper) -> Any:
        # PostgreSQL returns times with their zone then. A list reads thousands of them: of the 4.6 ms to read 2,000
        # rows, the calls took half (measured).
        if connection.vendor == "postgresql" and settings.USE_TZ:
            return []
        return super().get_db_converters(connection)

    def from_db_value(
        self, value: datetime | None, expression: Any, connection: BaseDatabaseWrapper
    ) -> datetime | None:
        if value is None or timezone.is_aware(value):
            return value
        return value.replace(tzinfo=timezone.get_default_timezone() if connection.vendor == "postgresql" else UTC)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if not prepared:
            value = self.get_prep_value(value)
        if isinstance(value, datetime) and not settings.USE_TZ:
            aware = value if timezone.is_aware(value) else timezone.make_aware(value, timezone.get_default_timezone())
            value = aware if connection.vendor == "postgresql" else timezone.make_naive(aware, UTC)
        return super().get_db_prep_value(value, connection, prepared=True)

    def deconstruct(self) -> Any:
        """The column is that of Django's field: migrations do not know the difference."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.DateTimeField", args, kwargs


if TYPE_CHECKING:
    MomentField = models.DateTimeField  # the types of Django's field, which depend on `null`
else:
    MomentField = _MomentField
