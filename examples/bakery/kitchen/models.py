from django.db import models


class Order(models.Model):
    number = models.PositiveIntegerField(unique=True)
    total = models.DecimalField(max_digits=8, decimal_places=2)
    labelled_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"order {self.number}"
