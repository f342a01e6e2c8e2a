from __future__ import annotations

from django.db import models


class Customer(models.Model):
    name = models.CharField(max_length=100)

    class Tier(models.TextChoices):
        BASIC = "basic"
        GOLD = "gold"

    def __str__(self) -> str:
        return self.name


class Contact(models.Model):
    account_id = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"contact {self.pk}"


class Bundle(models.Model):
    contact = models.ForeignKey(Contact, on_delete=models.CASCADE, db_constraint=False)

    def __str__(self) -> str:
        return f"bundle {self.pk}"
