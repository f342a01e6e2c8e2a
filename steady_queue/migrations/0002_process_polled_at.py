from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('steady_queue', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='process',
            name='polled_at',
            field=models.DateTimeField(null=True),
        ),
    ]
