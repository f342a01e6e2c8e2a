from django.db import migrations

from steady_queue.store.operations.charset import find_text_column_problem
from steady_queue.store.drivers.django import DjangoDriver


def convert(apps, schema_editor):
    """Tables have the default character set of their database, which may have no room for every text.

    A table without a text column keeps that default: a later migration that adds a text column does this again.
    """
    driver = DjangoDriver(schema_editor.connection.alias)
    unfit = driver.run(find_text_column_problem(driver.sql))
    for statement in unfit.statements if unfit else ():
        schema_editor.execute(statement)


class Migration(migrations.Migration):

    dependencies = [
        ('steady_queue', '0004_recurringtask_counts_from'),
    ]

    operations = [
        # Not atomic: MySQL and MariaDB commit with every change of a table.
        migrations.RunPython(convert, migrations.RunPython.noop, atomic=False, elidable=False),
    ]
