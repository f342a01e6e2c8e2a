"""Column types that behave the same on every database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from steady_queue.store.names import KEY_LENGTH, NAME_LENGTH
from steady_queue.store.operations import charset

__all__ = ["KEY_LENGTH", "NAME_LENGTH", "NameField"]

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    _CharField = models.CharField[Any, Any]
else:
    _CharField = models.CharField  # subscriptable for type checkers only


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
