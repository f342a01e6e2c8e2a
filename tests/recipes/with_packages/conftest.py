"""A project in the environment with the packages of the recipes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.recipes.projects import PYTHON_WITH_PACKAGES, Project

if TYPE_CHECKING:
    from pathlib import Path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow more time: these tests start many interpreters that import large packages."""
    for item in items:
        if "with_packages" in item.path.parts and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, PYTHON_WITH_PACKAGES).create()
