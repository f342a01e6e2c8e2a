"""Imports: in any order, from settings.py, before Django is set up."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import pytest

import steady_queue
from steady_queue.jobs.compat import NATIVE
from tests.support.processes.scripts import REPOSITORY, run_script

pytestmark = pytest.mark.contract

#: What a project has to install: Django's own framework needs no app.
APPS = ["steady_queue"] if NATIVE else ["django_tasks", "steady_queue"]

SETTINGS = """
import sys, types
source = '''
{imports}
SECRET_KEY = "x"
USE_TZ = True
INSTALLED_APPS = {apps}
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}}
TASKS = {{"default": {{"BACKEND": "steady_queue.backend.SteadyQueueBackend"}}}}
'''
settings = types.ModuleType("project_settings")
sys.modules["project_settings"] = settings
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "project_settings"
exec(source, settings.__dict__)
"""

FIRST = [
    "import steady_queue",
    "from steady_queue import task, enqueue_all, aenqueue_all, SteadyQueueTask",
    "import steady_queue.concurrency",
    "import steady_queue.jobs.definition.task",
    "import steady_queue.backend",
    "import steady_queue.errors, steady_queue.arguments",
    "from steady_queue.concurrency import limits_concurrency; from steady_queue import task",
    "import steady_queue.store.operations.enqueue, steady_queue.store.sql.postgres, steady_queue.store.drivers.pool",
]


def test_the_package_alone_imports_neither_django_nor_a_driver() -> None:
    printed = run_script(
        "import sys, steady_queue\n"
        "heavy = {'django', 'django_tasks', 'asyncpg', 'aiomysql', 'aiosqlite'}\n"
        "print(sorted(heavy & set(sys.modules)), steady_queue.database)"
    )
    assert printed == "[] default\n"


def test_settings_are_assigned_in_settings_and_kept() -> None:
    imports = "import steady_queue; steady_queue.preserve_finished_jobs = False; steady_queue.database = 'default'"
    printed = run_script(
        f"{SETTINGS.format(apps=APPS, imports=imports)}\n"
        "import django; django.setup(); import steady_queue; print(steady_queue.preserve_finished_jobs)"
    )
    assert printed == "False\n"


@pytest.mark.parametrize("first", FIRST)
def test_a_task_can_be_defined_after_any_import_order_of_the_settings(first: str) -> None:
    printed = run_script(
        f"""{SETTINGS.format(apps=APPS, imports=first)}
import django
django.setup()
from steady_queue import task
from steady_queue.concurrency import limits_concurrency
def work(): pass
print(type(limits_concurrency(key="k")(task(work))).__name__)
"""
    )
    assert printed == "SteadyQueueTask\n"


def test_every_module_can_be_imported_first() -> None:
    package = Path(steady_queue.__file__).parent
    # Only the admin imports `admin`, and the project of this test has none.
    names = sorted(
        f"steady_queue.{path.stem}" for path in package.glob("*.py") if path.stem not in ("__init__", "admin")
    )
    # In one interpreter each module would find the others there already; forks of one are new, and quick.
    printed = run_script(
        f"""
import os, sys, traceback
import django
django.setup()
loaded = [name for name in sys.modules if name.split(".")[0] == "steady_queue" and ".models" not in name]
for name in {names!r}:
    child = os.fork()
    if not child:
        for other in loaded:
            if not other.startswith("steady_queue.apps"):
                sys.modules.pop(other, None)
        try:
            __import__(name)
        except BaseException:
            print(name, traceback.format_exc(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
    )
    assert not printed, printed


def test_a_project_works_with_no_more_apps_than_it_needs() -> None:
    imports = "import steady_queue"
    printed = run_script(
        f"""{SETTINGS.format(apps=APPS, imports=imports)}
import django
django.setup()
from django.core.checks import run_checks
from django.core.management import call_command
call_command("migrate", verbosity=0)
from steady_queue import task
project = types.ModuleType("project")
sys.modules["project"] = project
exec("def work(number): pass", project.__dict__)
project.work = task(project.work)
print(project.work.enqueue(1).args, [message.id for message in run_checks() if message.id != "steady_queue.W003"])
"""
    )
    assert printed == "[1] []\n"


def test_every_public_name_exists() -> None:
    for name in steady_queue.__all__:
        assert getattr(steady_queue, name) is not None
    with pytest.raises(AttributeError, match=r"steady_queue.*colour"):
        _ = steady_queue.colour
    with pytest.raises(ImportError):
        from steady_queue import flavour  # noqa: F401


def test_the_settings_of_the_benchmarks_need_no_admin() -> None:
    printed = run_script(
        """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
os.environ["STEADY_QUEUE_TEST_DATABASES"] = "postgres"
import django
django.setup()
from django.conf import settings
print("django.contrib.admin" in settings.INSTALLED_APPS, settings.MIDDLEWARE)
"""
    )
    assert printed == "False []\n"


def test_the_package_declares_that_it_is_typed() -> None:
    assert resources.files("steady_queue").joinpath("py.typed").is_file()


TYPED = """
from steady_queue import enqueue_all, task
from steady_queue.jobs.compat import TaskContext
from steady_queue.concurrency import limits_concurrency

@task
def bare(a: int, b: str = "") -> float: return 1.0

@limits_concurrency(key=lambda a: a)
@task(priority=5)
async def limited(a: int) -> bytes: return b""

@task(takes_context=True)
def contextual(context: TaskContext, a: int) -> None: ...

reveal_type(bare)
reveal_type(limited)
reveal_type(bare.using(priority=3))
reveal_type(contextual)
bare.enqueue("no")
limited.bind()
contextual.enqueue(1)
enqueue_all([bare.bind(1), limited.bind(2)])
"""


def typed_program_is_told_its_types(file: Path) -> None:
    file.write_text(TYPED)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    lines = [line.partition("typed.py:")[2].replace("builtins.", "") for line in done.stdout.splitlines()]
    assert [line.partition("SteadyQueueTask")[2].rstrip('"') for line in lines if "Revealed" in line] == [
        "[[a: int, b: str =], float]",
        "[[a: int], typing.Coroutine[Any, Any, bytes]]",
        "[[a: int, b: str =], float]",
        "[[a: int], None]",
    ]
    errors = [line for line in lines if "error" in line]
    assert ["enqueue" in errors[0], "bind" in errors[1], len(errors)] == [True, True, 2], errors


if find_spec("mypy") is not None:
    # Only with the newest Django: the other environment has no tools that check types.

    def test_the_decorators_keep_the_types_of_the_function(tmp_path: Path) -> None:
        typed_program_is_told_its_types(tmp_path / "typed.py")
