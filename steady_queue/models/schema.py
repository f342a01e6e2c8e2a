from __future__ import annotations

from django.db import models


class SchemaVersion(models.Model):
    """One row: the version of the tables, and the oldest version whose code can work with them."""

    id = models.SmallIntegerField(primary_key=True)
    version = models.IntegerField()
    compatible_with = models.IntegerField()
