"""What the README says of files, tests and settings is true."""

from __future__ import annotations

import ast
import logging
import re
from dataclasses import fields
from pathlib import Path

import pytest

import steady_queue
from steady_queue import events
from steady_queue.checks.installation import _OPTIONS
from steady_queue.configuration import Dispatcher, Options, Worker

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(text: str, column: str) -> set[str]:
    """The names in the first column of the table whose first heading is `column`."""
    table = text.split(f"| {column} |")[1].split("\n\n")[0]
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def test_each_link_leads_to_a_file_or_a_heading() -> None:
    headings = {f"#{title.lower().replace(' ', '-')}" for title in re.findall(r"^## (.+)$", README, re.MULTILINE)}
    links = re.findall(r"\]\(([^)]+)\)", README)

    assert links
    assert [link for link in links if link not in headings and not (ROOT / link).is_file()] == []


def test_each_promise_names_tests_that_exist() -> None:
    rows = [line.split("|")[1:-1] for line in section("Promises").splitlines() if line.startswith("| ")][1:]

    assert rows
    missing = []
    for promise, _, proof in rows:
        named = re.findall(r"\[[^]]+\]\(([^)]+)\) ((?:`test_\w+`(?:, )?)+)", proof)
        if not named:
            missing.append(promise.strip())
        for path, names in named:
            text = (ROOT / path).read_text()
            missing += [name for name in re.findall(r"`(\w+)`", names) if f"def {name}(" not in text]
    assert missing == []


def test_the_tables_of_settings_and_options_are_complete() -> None:
    settings = set(steady_queue.__annotations__) - {"annotations"}

    assert first_cells(section("Installing and settings"), "setting") == settings
    assert first_cells(section("Installing and settings"), "option") == _OPTIONS


@pytest.mark.parametrize("kind", [Worker, Dispatcher, Options])
def test_the_tables_of_what_runs_are_complete(kind: type[Worker | Dispatcher | Options]) -> None:
    assert first_cells(section("Running it"), f"`{kind.__name__}`") == {field.name for field in fields(kind)}


def test_every_event_is_listed_with_its_level_and_its_fields() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \|$", section("Hooks, signals, events"), re.MULTILINE)

    listed = {name: (level, set(re.findall(r"`(\w+)`", names))) for name, level, names in rows}
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events.Event)]
    wanted = {
        kind.__name__: (logging.getLevelName(kind.level).removeprefix("Level "), fields_of(kind))
        for kind in kinds
        if kind not in (events.Event, events.Fault)
    }
    assert {name: facts for name, facts in listed.items() if name in wanted} == wanted
    assert all(name in wanted or "process_" in name for name in listed)


def fields_of(kind: type[events.Event]) -> set[str]:
    named = {name for base in kind.__mro__ for name in getattr(base, "__annotations__", {})}
    return named - {"level", "text"}


@pytest.mark.parametrize("block", re.findall(r"```python\n(.+?)```", README, re.DOTALL))
def test_the_python_in_it_is_python(block: str) -> None:
    compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
