from __future__ import annotations

from django.db import models


class Order(models.Model):
    """An item that a customer has ordered."""

    class Item(models.TextChoices):
        TEAPOT = "teapot", "A teapot"
        LAMP = "lamp", "A lamp"
        UNICORN = "unicorn", "A unicorn (not in stock: packing it fails)"

    item = models.CharField(max_length=20, choices=Item.choices)
    email = models.EmailField("your e-mail address")
    placed_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"order {self.pk}"


class Step(models.Model):
    """A task of an order. The page reads its state by the id of its result."""

    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="steps")
    task_name = models.CharField(max_length=50)
    result_id = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{self.task_name} of order {self.order_id}"
