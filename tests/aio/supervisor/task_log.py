"""The log of tasks, as a test reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.wait import until

if TYPE_CHECKING:
    from pathlib import Path


class TaskLog:
    """The file to which the tasks of a test append their starts and ends."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        path.touch()
        self._path = path

    def names(self, word: str) -> list[str]:
        lines = (line.split(" ", 1) for line in self._path.read_text().splitlines())
        return [name for first, name in lines if first == word]

    @property
    def began(self) -> list[str]:
        return self.names("began")

    @property
    def ended(self) -> list[str]:
        return self.names("ended")

    async def has_begun(self, *names: str) -> None:
        await until(lambda: set(names) <= set(self.began), f"{names} did not begin")

    async def has_ended(self, *names: str) -> None:
        await until(lambda: set(names) <= set(self.ended), f"{names} did not end")
