from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('steady_queue', '0003_job_overrun_after'),
    ]

    operations = [
        migrations.AddField(
            model_name='recurringtask',
            name='counts_from',
            field=models.DateTimeField(null=True),
        ),
    ]
