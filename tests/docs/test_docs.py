"""Links, guarantees and code examples of the README and the documentation are correct."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from tests.docs.helpers import environment
from tests.docs.pages import DOCS, ROOT, Page, all_pages, names, page, tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

PAGES = all_pages()
EXAMPLES = [(found, block) for found in PAGES for block in found.blocks("python")]
#: Executes the settings that follow, as if they were those of a project, and prints what is wrong with them.
SETTINGS = """
from pathlib import Path
BASE_DIR, INSTALLED_APPS, DATABASES = Path(), [], {"default": {}}
"""
PROBLEMS = """
print(*(STEADY_QUEUE.problems() if "STEADY_QUEUE" in globals() else ()))
"""


@pytest.mark.parametrize("source", PAGES, ids=str)
def test_each_link_leads_to_a_file_and_a_heading(source: Page) -> None:
    missing = []
    for link in source.links():
        if re.match(r"https?://|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        file = (source.file.parent / path).resolve() if path else source.file
        if not file.is_file() or (anchor and anchor not in Page(str(file.relative_to(ROOT))).anchors()):
            missing.append(link)
    assert missing == []


def test_each_page_is_in_the_table_of_contents_once() -> None:
    listed = [line for block in page("docs/index.md").blocks("{toctree}") for line in block.splitlines()]
    listed = [line for line in listed if line and not line.startswith(":")]
    pages = [str(file.relative_to(DOCS).with_suffix("")) for file in DOCS.rglob("*.md") if "_build" not in file.parts]

    assert sorted(listed) == sorted({*pages} - {"index"})


def test_the_readme_links_to_each_guide_and_reference() -> None:
    pages = [
        f"docs/{file.relative_to(DOCS)}" for kind in ("guides", "reference") for file in (DOCS / kind).glob("*.md")
    ]
    links = {link.partition("#")[0] for link in page("README.md").links()}

    assert sorted(set(pages) - links) == []


def test_each_promise_names_tests_that_exist() -> None:
    rows = tables(page("docs/reliability.md").section("Promises"), "promise")

    missing = []
    for promise, _, proof in rows:
        tests = re.findall(r"`([\w/]+\.py)::(test_\w+)`", proof)
        if not tests or len(tests) != proof.count("::"):
            missing.append(promise)
        for path, name in tests:
            if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text():
                missing.append(f"{path}::{name}")
    assert missing == []


def test_each_guarantee_names_the_databases_it_holds_on() -> None:
    known = {"all three", "any", "PostgreSQL", "PostgreSQL, MariaDB", "SQLite"}

    assert {row[1] for row in tables(page("docs/reliability.md").section("Promises"), "promise")} <= known


@pytest.mark.parametrize(("source", "block"), EXAMPLES)
def test_each_example_is_python(source: Page, block: str) -> None:
    compile(block, source.path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("source", PAGES, ids=str)
def test_the_examples_use_names_that_the_package_has(source: Page) -> None:
    trees = [parsed(block) for block in source.blocks("python")]
    bound = {name: value for tree in trees for name, value in imported(tree)}

    missing = [f"{name}.{attribute}" for tree in trees for name, attribute in attributes(tree, bound)]
    assert missing == []


def parsed(block: str) -> ast.AST:
    tree: ast.AST = compile(block, "example", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return tree


def imported(tree: ast.AST) -> Iterator[tuple[str, object]]:
    """Each name that an example imports from the package, with its object; an unknown one raises."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("steady_queue"):
            home = import_module(node.module or "")
            for alias in node.names:
                yield alias.asname or alias.name, member(home, alias.name)


def member(home: ModuleType, name: str) -> object:
    if hasattr(home, name):
        return getattr(home, name)
    return import_module(f"{home.__name__}.{name}")


def attributes(tree: ast.AST, bound: dict[str, object]) -> Iterator[tuple[str, str]]:
    """Each attribute that an example reads of something it imported, and that is not there."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            continue
        if node.value.id in bound and not hasattr(bound[node.value.id], node.attr):
            yield node.value.id, node.attr


def test_the_settings_in_examples_are_accepted(tmp_path: Path) -> None:
    blocks = [block for _, block in EXAMPLES if block.startswith("# settings.py") or "STEADY_QUEUE = " in block]
    assert len(blocks) >= 5

    for block in blocks:
        script = SETTINGS + block + PROBLEMS
        ran = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "", ""), block


def test_code_spans_name_public_modules_only() -> None:
    internal = []
    for source in PAGES:
        for name in names(source.prose):
            if re.fullmatch(r"steady_queue\.(aio|store|db|jobs)\.(?!running$)[\w.]+", name) and is_for_users(source):
                internal.append(f"{source}: {name}")
    assert internal == []


def is_for_users(source: Page) -> bool:
    return source.path not in ("CONTRIBUTING.md", "docs/architecture.md", "docs/glossary.md")
