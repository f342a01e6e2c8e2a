"""A project that consists of what a recipe shows, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING

import django
from django.core.management import call_command

from tests.docs.helpers import environment
from tests.docs.pages import page

if TYPE_CHECKING:
    from pathlib import Path

#: The Python of the environment with the packages of the recipes; `make test-recipes` sets it.
PYTHON_WITH_PACKAGES = os.environ.get("STEADY_QUEUE_RECIPES_PYTHON", "")
#: The first page has what all recipes start from.
PAGES = [page(f"docs/recipes/{name}.md") for name in ("overview", "packages", "deployments", "databases")]
_BLOCK = re.compile(r"^```(?:python|ini|yaml|dockerfile)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section_of(title: str) -> str:
    """The text of a recipe, with its examples; an empty title is the project that all recipes start from."""
    if not title:
        return PAGES[0].text
    sections: dict[str, str] = {}
    for one in PAGES[1:]:
        parts = re.split(r"^## (.+)\n", one.text, flags=re.MULTILINE)
        sections |= zip(parts[1::2], parts[2::2], strict=True)
    return sections[title]


def files_of(title: str) -> dict[str, str]:
    """The files of a recipe by their paths; several examples of one file are joined."""
    files: dict[str, str] = {}
    for path, body in _BLOCK.findall(section_of(title)):
        files[path] = files.get(path, "") + body
    assert files, f"the recipe {title!r} has no files"
    return files


@dataclass
class Project:
    """A project in a directory, run with the Python of an environment."""

    directory: Path
    python: str = sys.executable
    timeout_seconds: float = 100

    def create(self) -> Project:
        """Make an empty project with an app, and add what all recipes have in common."""
        call_command("startproject", "project", str(self.directory))
        (self.directory / "shop").mkdir()
        (self.directory / "shop" / "__init__.py").touch()
        self.add_recipe("")
        if django.VERSION < (6,):
            self.append("project/settings.py", 'INSTALLED_APPS += ["django_tasks"]')
        return self

    def add_recipe(self, title: str) -> None:
        """Write the files of a recipe; settings are added to those that exist."""
        for path, body in files_of(title).items():
            self.append(path, body)

    def append(self, path: str, text: str) -> None:
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as opened:
            opened.write(f"\n{dedent(text)}\n")

    def run(self, *arguments: str, **env: str) -> str:
        """Run Python in the directory; return what it prints."""
        ran = self.attempt(*arguments, **env)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def attempt(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the directory, whether it succeeds or not."""
        return subprocess.run(
            [self.python, *arguments],
            cwd=self.directory,
            env=environment(self.directory, **env),
            capture_output=True,
            text=True,
            timeout=self.timeout_seconds,
        )

    def manage(self, *arguments: str, **env: str) -> str:
        return self.run("manage.py", *arguments, **env)

    def run_script(self, script: str, settings: str = "project.settings", **env: str) -> str:
        """Run a script after `django.setup()`."""
        setup = "import django; django.setup()\n"
        return self.run("-c", setup + dedent(script), DJANGO_SETTINGS_MODULE=settings, **env)

    def drain(self, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a worker until there is no task left."""
        ran = self.attempt("manage.py", "steady_queue", "--async", "--drain", **env)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran
