from __future__ import annotations

from django.db import models


class Customer(models.Model):
    name = models.CharField(max_length=100)

    class Tier(models.TextChoices):
        BASIC = "basic"
        GOLD = "gold"

    def __str__(self) -> str:
        return self.name
