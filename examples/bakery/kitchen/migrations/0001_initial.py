from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField(unique=True)),
                ("total", models.DecimalField(decimal_places=2, max_digits=8)),
                ("labelled_at", models.DateTimeField(null=True)),
                ("delivered_at", models.DateTimeField(null=True)),
            ],
        ),
    )
