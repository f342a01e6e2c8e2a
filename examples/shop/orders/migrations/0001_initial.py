from __future__ import annotations

from django.db import migrations, models

ITEMS = [
    ("teapot", "A teapot"),
    ("lamp", "A lamp"),
    ("unicorn", "A unicorn (not in stock: packing it fails)"),
]


class Migration(migrations.Migration):
    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("item", models.CharField(choices=ITEMS, max_length=20)),
                ("email", models.EmailField(max_length=254, verbose_name="your e-mail address")),
                ("placed_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Step",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task_name", models.CharField(max_length=50)),
                ("result_id", models.CharField(max_length=64)),
                (
                    "order",
                    models.ForeignKey(on_delete=models.deletion.CASCADE, related_name="steps", to="orders.order"),
                ),
            ],
        ),
    )
