"""The queue in a database of its own, as the recipe configures it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.recipes.projects import Project

if TYPE_CHECKING:
    from pathlib import Path

#: Calls the view with a name and without one, and prints what is in the databases.
SIGN_UP = """
import json
from django.db import connections
from django.test import RequestFactory
from shop.views import sign_up
from steady_queue.models import Job

answer = json.loads(sign_up(RequestFactory().get("/", {"name": "ada"})).content)
try:
    sign_up(RequestFactory().get("/", {"name": ""}))
except ValueError:
    pass
tables = {alias: set(connections[alias].introspection.table_names()) for alias in connections}
print(json.dumps({
    "answered": answer["id"],
    "stored": [str(job.id) for job in Job.objects.all()],
    "in the default database": [name for name in tables["default"] if name.startswith("steady_queue")],
    "in the queue's database": [name for name in tables["queue"] if name.startswith("auth")],
}))
"""


def test_a_task_is_stored_in_the_queues_database_after_the_commit(tmp_path: Path) -> None:
    project = Project(tmp_path).create()
    project.add_recipe("Several databases")
    project.manage("migrate", "contenttypes")
    project.manage("migrate", "--database=queue")

    printed = json.loads(project.run_script(SIGN_UP))

    assert printed["stored"] == [printed["answered"]]
    assert printed["in the default database"] == printed["in the queue's database"] == []
