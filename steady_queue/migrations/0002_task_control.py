from importlib import import_module

import steady_queue.models.fields
from django.db import migrations, models

initial = import_module("steady_queue.migrations.0001_initial")

# The version of the tables, and the oldest version whose code can work with them: see SchemaVersion.
VERSION, COMPATIBLE_WITH = 2, 2


def tune_storage(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for table in ("expiry", "uniquekey", "cancellation"):
            schema_editor.execute(f"ALTER TABLE steady_queue_{table} SET ({initial.AUTOVACUUM})")


def insert_version(apps, schema_editor):
    versions = apps.get_model("steady_queue", "SchemaVersion").objects.using(schema_editor.connection.alias)
    versions.update_or_create(id=1, defaults={"version": VERSION, "compatible_with": COMPATIBLE_WITH})


class Migration(migrations.Migration):

    dependencies = [
        ('steady_queue', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Cancellation',
            fields=[
                ('job_id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('requested_at', models.DateTimeField()),
                ('requested_by', models.TextField()),
                ('reason', models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name='SchemaVersion',
            fields=[
                ('id', models.SmallIntegerField(primary_key=True, serialize=False)),
                ('version', models.IntegerField()),
                ('compatible_with', models.IntegerField()),
            ],
        ),
        migrations.AddField(
            model_name='failedexecution',
            name='kind',
            field=models.SmallIntegerField(choices=[(0, 'failed'), (1, 'exhausted'), (2, 'cancelled'), (3, 'expired')], db_default=0),
        ),
        migrations.AddField(
            model_name='job',
            name='log',
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='metadata',
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='old_arguments',
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='saved',
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='unique_until',
            field=models.SmallIntegerField(choices=[(0, 'started'), (1, 'finished')], null=True),
        ),
        migrations.AddField(
            model_name='recurringtask',
            name='skip_if_unfinished',
            field=models.BooleanField(db_default=False),
        ),
        migrations.CreateModel(
            name='Expiry',
            fields=[
                ('job_id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'verbose_name_plural': 'expiries',
                'indexes': [models.Index(fields=['expires_at'], name='sq_expiry')],
            },
        ),
        migrations.CreateModel(
            name='UniqueKey',
            fields=[
                ('key', steady_queue.models.fields.NameField(db_column='unique_key', max_length=512, primary_key=True, serialize=False)),
                ('job_id', models.UUIDField()),
                ('until', models.SmallIntegerField(choices=[(0, 'started'), (1, 'finished')])),
                ('held_until', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['job_id'], name='sq_unique_by_job')],
            },
        ),
        migrations.RunPython(tune_storage, migrations.RunPython.noop, elidable=False),
        migrations.RunPython(insert_version, migrations.RunPython.noop, elidable=False),
        # Not atomic: MySQL and MariaDB commit with every change of a table.
        migrations.RunPython(initial.convert_charset, migrations.RunPython.noop, atomic=False, elidable=False),
    ]
