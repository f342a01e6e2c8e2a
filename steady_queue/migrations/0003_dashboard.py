from importlib import import_module

import steady_queue.models.fields
from django.db import migrations, models

initial = import_module("steady_queue.migrations.0001_initial")

# The version of the tables, and the oldest version whose code can work with them: see SchemaVersion.
VERSION, COMPATIBLE_WITH = 3, 2


def tune_storage(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for table in ("processrequest", "taskstatistics"):
            schema_editor.execute(f"ALTER TABLE steady_queue_{table} SET ({initial.AUTOVACUUM})")


def insert_version(apps, schema_editor):
    versions = apps.get_model("steady_queue", "SchemaVersion").objects.using(schema_editor.connection.alias)
    versions.update_or_create(id=1, defaults={"version": VERSION, "compatible_with": COMPATIBLE_WITH})


class Migration(migrations.Migration):

    dependencies = [
        ('steady_queue', '0002_task_control'),
    ]

    operations = [
        migrations.CreateModel(
            name='ProcessRequest',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('process_id', models.UUIDField()),
                ('kind', models.SmallIntegerField(choices=[(0, 'stop'), (1, 'stack')])),
                ('job_id', models.UUIDField(null=True)),
                ('requested_at', models.DateTimeField()),
                ('requested_by', models.TextField()),
                ('reply', models.TextField(null=True)),
                ('replied_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='TaskStatistics',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('seconds', models.SmallIntegerField()),
                ('starts_at', models.DateTimeField()),
                ('process_id', models.UUIDField()),
                ('queue_name', steady_queue.models.fields.NameField(max_length=255)),
                ('task_path', steady_queue.models.fields.NameField(max_length=255)),
                ('started', models.IntegerField()),
                ('finished', models.IntegerField()),
                ('failed', models.IntegerField()),
                ('retried', models.IntegerField()),
                ('run_milliseconds', models.BigIntegerField()),
                ('longest_run_milliseconds', models.BigIntegerField()),
                ('waits', models.IntegerField()),
                ('wait_milliseconds', models.BigIntegerField()),
                ('longest_wait_milliseconds', models.BigIntegerField()),
            ],
            options={
                'verbose_name_plural': 'task statistics',
                'constraints': [models.UniqueConstraint(fields=('seconds', 'starts_at', 'process_id', 'queue_name', 'task_path'), name='sq_statistics')],
            },
        ),
        migrations.CreateModel(
            name='Limit',
            fields=[
            ],
            options={
                'verbose_name': 'concurrency limit',
                'proxy': True,
                'default_permissions': ('view',),
                'indexes': [],
                'constraints': [],
            },
            bases=('steady_queue.semaphore',),
        ),
        migrations.CreateModel(
            name='Overview',
            fields=[
            ],
            options={
                'verbose_name_plural': 'overview',
                'proxy': True,
                'default_permissions': ('view',),
                'indexes': [],
                'constraints': [],
            },
            bases=('steady_queue.job',),
        ),
        migrations.CreateModel(
            name='Queue',
            fields=[
            ],
            options={
                'permissions': (('pause_queue', 'Can pause and resume queues'), ('clear_queue', 'Can clear queues')),
                'proxy': True,
                'default_permissions': ('view',),
                'indexes': [],
                'constraints': [],
            },
            bases=('steady_queue.pause',),
        ),
        migrations.AlterModelOptions(
            name='job',
            options={'permissions': (('retry_job', 'Can retry failed, cancelled and expired tasks'), ('edit_job', 'Can retry tasks with other arguments'), ('run_job', 'Can run scheduled and blocked tasks now'), ('cancel_job', 'Can cancel tasks'), ('discard_job', 'Can discard tasks'), ('inspect_job', 'Can read the stacks of running tasks')), 'verbose_name': 'task'},
        ),
        migrations.AlterModelOptions(
            name='process',
            options={'permissions': (('stop_process', 'Can stop processes'),), 'verbose_name_plural': 'processes'},
        ),
        migrations.AlterModelOptions(
            name='recurringtask',
            options={'permissions': (('run_recurringtask', 'Can run recurring tasks now'), ('enable_recurringtask', 'Can enable and disable recurring tasks'))},
        ),
        migrations.AddField(
            model_name='process',
            name='measurements',
            field=models.TextField(null=True),
        ),
        migrations.AddIndex(
            model_name='failedexecution',
            index=models.Index(fields=['kind', 'failed_at', 'job'], name='sq_failed_by_kind'),
        ),
        migrations.RunPython(tune_storage, migrations.RunPython.noop, elidable=False),
        migrations.RunPython(insert_version, migrations.RunPython.noop, elidable=False),
        # Not atomic: MySQL and MariaDB commit with every change of a table.
        migrations.RunPython(initial.convert_charset, migrations.RunPython.noop, atomic=False, elidable=False),
    ]
