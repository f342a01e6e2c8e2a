from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('steady_queue', '0002_process_polled_at'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='overrun_after',
            field=models.BigIntegerField(null=True),
        ),
    ]
