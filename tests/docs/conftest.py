"""The fixture with which the tests of the guides execute their examples."""

from __future__ import annotations

import sys
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import page

if TYPE_CHECKING:
    from collections.abc import Callable

#: Each module has another name: a process finds the module of a task once.
_numbers = count()


@pytest.fixture
def example_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Executes examples of a guide, by their numbers or all of them, as one module that tasks can be found in.

    The module belongs to no installed app: the system checks of other tests must not find its tasks.
    """

    def execute(guide: str, *numbers: int) -> ModuleType:
        module = ModuleType(f"tests.docs.examples_{next(_numbers)}.{guide.replace('-', '_')}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        blocks = page(f"docs/guides/{guide}.md").blocks("python")
        for block in [blocks[number] for number in numbers] or blocks:
            exec(block, vars(module))
        return module

    return execute
