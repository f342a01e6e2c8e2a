"""Leaves out the recipes that need more packages, unless an environment has them."""

from tests.recipes.projects import PYTHON_WITH_PACKAGES

collect_ignore = [] if PYTHON_WITH_PACKAGES else ["with_packages"]
