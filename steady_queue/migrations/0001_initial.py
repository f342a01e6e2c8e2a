import django.db.models.deletion
import steady_queue.models.fields
from django.db import migrations, models

from steady_queue.store.drivers.django import DjangoDriver
from steady_queue.store.operations.database.charset import find_text_column_problem

# Rows of these tables live for seconds: with the default settings there would be many times more dead rows than live ones
# before the first vacuum. A process's row is updated with every heartbeat, on the same page while that has room.
HOT_TABLES = {
    "steady_queue_readyexecution": "",
    "steady_queue_claimedexecution": "",
    "steady_queue_scheduledexecution": "",
    "steady_queue_blockedexecution": "",
    "steady_queue_semaphore": "",
    "steady_queue_process": ", fillfactor = 50",
}
# One for each lock id of concurrency keys, and one more for maintenance.
LOCK_BUCKETS = 1024 + 1
AUTOVACUUM = (
    "autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, "
    "autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 1000, autovacuum_vacuum_cost_delay = 0"
)


def tune_storage(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for table, more in HOT_TABLES.items():
            schema_editor.execute(f"ALTER TABLE {table} SET ({AUTOVACUUM}{more})")


def insert_lock_buckets(apps, schema_editor):
    bucket = apps.get_model("steady_queue", "LockBucket")
    bucket.objects.using(schema_editor.connection.alias).bulk_create([bucket(id=id_) for id_ in range(LOCK_BUCKETS)])


def convert_charset(apps, schema_editor):
    """Tables have the default character set of their database, which may not be able to store every text.

    A table without a text column keeps that default: a later migration that adds a text column does this again.
    """
    driver = DjangoDriver(schema_editor.connection.alias)
    problem = driver.run(find_text_column_problem(driver.sql))
    for statement in problem.statements if problem else ():
        schema_editor.execute(statement)


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('queue_name', steady_queue.models.fields.NameField(max_length=255)),
                ('task_path', steady_queue.models.fields.NameField(max_length=255)),
                ('arguments', models.TextField()),
                ('priority', models.SmallIntegerField()),
                ('lane', models.SmallIntegerField(choices=[(0, 'async'), (1, 'thread'), (2, 'process')])),
                ('backend', steady_queue.models.fields.NameField(max_length=255)),
                ('enqueued_at', models.DateTimeField()),
                ('scheduled_at', models.DateTimeField(null=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('headers', models.TextField(null=True)),
                ('concurrency_key', steady_queue.models.fields.NameField(max_length=512, null=True)),
                ('concurrency_limit', models.IntegerField(null=True)),
                ('on_conflict', models.SmallIntegerField(choices=[(0, 'block'), (1, 'discard')], null=True)),
                ('overrun_after', models.BigIntegerField(null=True)),
                ('unique_key', steady_queue.models.fields.NameField(max_length=512, null=True)),
                ('batch_id', models.UUIDField(null=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('last_attempted_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('attempts', models.IntegerField(db_default=0)),
                ('retries', models.IntegerField(db_default=0)),
                ('last_claim_id', models.UUIDField(null=True)),
                ('worker_ids', models.TextField(null=True)),
                ('errors', models.TextField(null=True)),
                ('return_value', models.TextField(null=True)),
                ('progress', models.TextField(null=True)),
                ('cancel_requested_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name': 'task',
            },
        ),
        migrations.CreateModel(
            name='LockBucket',
            fields=[
                ('id', models.SmallIntegerField(primary_key=True, serialize=False)),
            ],
        ),
        migrations.CreateModel(
            name='Pause',
            fields=[
                ('queue_name', steady_queue.models.fields.NameField(max_length=255, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Process',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=32)),
                ('name', models.CharField(max_length=255)),
                ('pid', models.BigIntegerField()),
                ('hostname', models.TextField()),
                ('supervisor_id', models.UUIDField(null=True)),
                ('metadata', models.TextField()),
                ('started_at', models.DateTimeField()),
                ('last_heartbeat_at', models.DateTimeField()),
                ('polled_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name_plural': 'processes',
            },
        ),
        migrations.CreateModel(
            name='RecurringExecution',
            fields=[
                ('job_id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('task_key', steady_queue.models.fields.NameField(max_length=255)),
                ('run_at', models.DateTimeField()),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='RecurringTask',
            fields=[
                ('key', steady_queue.models.fields.NameField(db_column='task_key', max_length=255, primary_key=True, serialize=False)),
                ('task_path', steady_queue.models.fields.NameField(max_length=255)),
                ('schedule', models.CharField(max_length=255)),
                ('time_zone', models.CharField(max_length=64, null=True)),
                ('catch_up', models.CharField(db_default='none', max_length=16)),
                ('arguments', models.TextField()),
                ('queue_name', steady_queue.models.fields.NameField(max_length=255, null=True)),
                ('priority', models.SmallIntegerField(null=True)),
                ('description', models.TextField(db_default='')),
                ('static', models.BooleanField(db_default=False)),
                ('enabled', models.BooleanField(db_default=True)),
                ('disabled_reason', models.TextField(null=True)),
                ('last_run_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('counts_from', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='BlockedExecution',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='blocked_execution', serialize=False, to='steady_queue.job')),
                ('concurrency_key', steady_queue.models.fields.NameField(max_length=512)),
                ('priority', models.SmallIntegerField()),
            ],
            options={
                'verbose_name': 'blocked task',
            },
        ),
        migrations.CreateModel(
            name='ClaimedExecution',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='claimed_execution', serialize=False, to='steady_queue.job')),
                ('claim_id', models.UUIDField()),
                ('process_id', models.UUIDField()),
                ('claimed_at', models.DateTimeField()),
            ],
            options={
                'verbose_name': 'task in progress',
                'verbose_name_plural': 'tasks in progress',
            },
        ),
        migrations.CreateModel(
            name='FailedExecution',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='failed_execution', serialize=False, to='steady_queue.job')),
                ('failed_at', models.DateTimeField()),
                ('exception_class', models.TextField()),
                ('message', models.TextField()),
            ],
            options={
                'verbose_name': 'failed task',
            },
        ),
        migrations.CreateModel(
            name='ReadyExecution',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='ready_execution', serialize=False, to='steady_queue.job')),
                ('queue_name', steady_queue.models.fields.NameField(max_length=255)),
                ('lane', models.SmallIntegerField(choices=[(0, 'async'), (1, 'thread'), (2, 'process')])),
                ('priority', models.SmallIntegerField()),
            ],
            options={
                'verbose_name': 'ready task',
            },
        ),
        migrations.CreateModel(
            name='ScheduledExecution',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='scheduled_execution', serialize=False, to='steady_queue.job')),
                ('scheduled_at', models.DateTimeField()),
                ('priority', models.SmallIntegerField()),
            ],
            options={
                'verbose_name': 'scheduled task',
            },
        ),
        migrations.CreateModel(
            name='Semaphore',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='semaphore', serialize=False, to='steady_queue.job')),
                ('concurrency_key', steady_queue.models.fields.NameField(max_length=512)),
                ('slot', models.IntegerField()),
                ('acquired_at', models.DateTimeField()),
            ],
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('finished_at__isnull', False)), fields=['finished_at'], name='sq_job_finished'),
        ),
        migrations.AddConstraint(
            model_name='recurringexecution',
            constraint=models.UniqueConstraint(fields=('task_key', 'run_at'), name='sq_recurring_tick'),
        ),
        migrations.AddIndex(
            model_name='blockedexecution',
            index=models.Index(fields=['concurrency_key', '-priority', 'job'], name='sq_blocked_by_key'),
        ),
        migrations.AddIndex(
            model_name='failedexecution',
            index=models.Index(fields=['failed_at'], name='sq_failed_at'),
        ),
        migrations.AddIndex(
            model_name='readyexecution',
            index=models.Index(fields=['queue_name', 'lane', '-priority', 'job'], name='sq_ready_by_queue'),
        ),
        migrations.AddIndex(
            model_name='readyexecution',
            index=models.Index(fields=['lane', '-priority', 'job'], name='sq_ready_all', condition=models.Q(priority__gte=-32768)),
        ),
        migrations.AddIndex(
            model_name='scheduledexecution',
            index=models.Index(fields=['scheduled_at', '-priority', 'job'], name='sq_scheduled_due'),
        ),
        migrations.AddIndex(
            model_name='semaphore',
            index=models.Index(fields=['concurrency_key', 'slot'], name='sq_semaphore_slot'),
        ),
        migrations.RunPython(tune_storage, migrations.RunPython.noop, elidable=False),
        migrations.RunPython(insert_lock_buckets, migrations.RunPython.noop, elidable=False),
        # Not atomic: MySQL and MariaDB commit with every change of a table.
        migrations.RunPython(convert_charset, migrations.RunPython.noop, atomic=False, elidable=False),
    ]
