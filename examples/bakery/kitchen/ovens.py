"""The ovens: each counts the loaves it holds, and the maximum it has held."""

from collections.abc import Iterator
from contextlib import contextmanager


class Oven:
    """Does not enforce its capacity: the task that bakes has a concurrency limit."""

    #: The number of loaves that it can bake at a time.
    ROOM = 2

    def __init__(self) -> None:
        self.loaves = 0
        self.most_loaves = 0

    @contextmanager
    def holding_a_loaf(self) -> Iterator[None]:
        self.loaves += 1
        self.most_loaves = max(self.most_loaves, self.loaves)
        try:
            yield
        finally:
            self.loaves -= 1


ovens = {name: Oven() for name in ("brick", "deck", "steam")}
