"""The documentation as data: its pages, their headings, links, tables and code examples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^( *)```(\{?\w*\}?)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Page:
    """One Markdown file; `path` is relative to the repository."""

    path: str

    @property
    def file(self) -> Path:
        return ROOT / self.path

    @property
    def text(self) -> str:
        return self.file.read_text()

    @property
    def prose(self) -> str:
        """The text without its fenced code blocks."""
        return _FENCE.sub("", self.text)

    def blocks(self, language: str) -> list[str]:
        """The fenced code blocks in a language, without their indentation."""
        return [dedent(body) for _, name, body in _FENCE.findall(self.text) if name == language]

    def links(self) -> list[str]:
        """The targets of its links, without those that code spans show."""
        return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]+`", "", self.prose))

    def anchors(self) -> set[str]:
        """The anchors of its headings, as GitHub and MyST derive them."""
        titles = re.findall(r"^#{1,6} (.+)$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}

    def section(self, title: str) -> str:
        """The prose below a heading, up to the next one of its level or above."""
        found = re.search(rf"^(#+) {re.escape(title)}\n", self.prose, re.MULTILINE)
        assert found, f"{self.path} has no section {title!r}"
        rest = self.prose[found.end() :]
        end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
        return rest[: end.start()] if end else rest

    def __str__(self) -> str:
        return self.path


def page(path: str) -> Page:
    return Page(path)


def all_pages() -> list[Page]:
    files = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "examples" / "README.md"]
    return [Page(str(file.relative_to(ROOT))) for file in sorted(files) if "_build" not in file.parts]


def tables(text: str, first_heading: str) -> list[list[str]]:
    """The rows of every table whose first column has this heading, each as a list of cells."""
    rows: list[list[str]] = []
    for table in re.findall(rf"^\| {re.escape(first_heading)} \|.*\n\|[-|]+\n((?:\|.*\n?)+)", text, re.MULTILINE):
        rows += [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in table.splitlines()]
    assert rows, f"there is no table with the heading {first_heading!r}"
    return rows


def names(cell: str) -> list[str]:
    """The identifiers that a cell has in code spans."""
    return re.findall(r"`([\w.]+)`", cell)


def first_names(text: str, first_heading: str) -> list[str]:
    """The identifiers in the first column of such tables."""
    return [name for row in tables(text, first_heading) for name in names(row[0])]
