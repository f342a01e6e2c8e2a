"""The README's first steps as data: the commands of the section `Try it`, and the files that it shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.docs.pages import page

if TYPE_CHECKING:
    from pathlib import Path

#: What the last command prints, among other lines.
RESULT = "2 + 3 = 5"


@dataclass(frozen=True)
class FirstSteps:
    """The commands in order, and the text of each file, which exists or not."""

    commands: list[str]
    files: dict[str, str]

    def write_files(self, directory: Path) -> None:
        for path, text in self.files.items():
            with (directory / path).open("a") as file:
                file.write(f"\n{text}")


def read_first_steps() -> FirstSteps:
    """Read them up to the end of the first results: the examples of a checkout follow."""
    text = page("README.md").text
    section = text[text.index("## Try it") : text.index("A checkout has examples")]
    commands, files = [], {}
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
        if language == "python":
            first_line, _, _ = body.partition("\n")
            files[first_line.removeprefix("# ")] = body
        else:
            commands += body.splitlines()
    return FirstSteps(commands, files)
