from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="Answer",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("prompt", models.TextField()),
                ("text", models.TextField(default="")),
                ("tokens", models.PositiveIntegerField(default=0)),
                ("is_complete", models.BooleanField(default=False)),
                ("begun_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
    )
