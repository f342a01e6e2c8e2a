"""Leaves out the recipes that need more packages, unless an environment has them."""

from __future__ import annotations

import os

import pytest

from tests.recipes.projects import Project

#: The Python of the environment with these packages; `make test-recipes` sets it.
PYTHON = os.environ.get("STEADY_QUEUE_RECIPES_PYTHON", "")

collect_ignore = [] if PYTHON else ["with_packages"]


@pytest.fixture
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """An empty project in the environment with the packages of the recipes."""
    return Project(tmp_path_factory.mktemp("project"), PYTHON).create()
