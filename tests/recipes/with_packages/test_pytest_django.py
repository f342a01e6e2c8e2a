"""The fixtures and the tests of the recipe pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.recipes.projects import Project


def test_the_tests_of_the_recipe_pass(project: Project) -> None:
    project.add_recipe("pytest-django")
    ran = project.attempt("-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "4 passed" in ran.stdout
