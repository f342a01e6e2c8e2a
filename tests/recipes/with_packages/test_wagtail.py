"""Wagtail updates its search index and its reference index in the worker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.recipes.projects import PYTHON_WITH_PACKAGES, Project

if TYPE_CHECKING:
    from pathlib import Path

#: The migrations would take minutes otherwise.
FAST = 'DATABASES["default"]["OPTIONS"] = {"init_command": "PRAGMA synchronous = OFF"}'
SAVE = """
import json
from home.models import HomePage
from steady_queue.models import Job
from wagtail.models import ReferenceIndex

home = HomePage.objects.first()
page = home.add_child(instance=HomePage(title="Wombats", slug="wombats"))
print(json.dumps(sorted(job.task_path for job in Job.objects.filter(finished_at=None))))
"""
FIND = """
import json
from home.models import HomePage
from steady_queue.models import Job

found = HomePage.objects.search("wombats")
print(json.dumps([[page.title for page in found], Job.objects.filter(finished_at=None).count()]))
"""


@pytest.mark.timeout(900)  # 200 migrations
def test_a_page_is_found_when_the_worker_has_run(tmp_path: Path) -> None:
    project = Project(tmp_path, PYTHON_WITH_PACKAGES, timeout_seconds=600)
    start = "import sys; from wagtail.bin.wagtail import main; sys.argv[1:] = ['start', 'mysite', '.']; main()"
    project.run("-c", start)
    project.add_recipe("Wagtail")
    project.append("mysite/settings/base.py", FAST)
    project.manage("migrate")
    settings = "mysite.settings.dev"

    assert json.loads(project.run_script(SAVE, settings)) == [
        "modelsearch.tasks.insert_or_update_object_task",
        "wagtail.tasks.update_reference_index_task",
    ]
    assert json.loads(project.run_script(FIND, settings)) == [[], 2]
    project.drain()
    assert json.loads(project.run_script(FIND, settings)) == [["Wombats"], 0]
