"""The ovens: each knows how many loaves it holds, and the most it ever held."""

from collections.abc import Iterator
from contextlib import contextmanager


class Oven:
    """Has no door that is locked: whoever puts loaves in must see to it that there are not too many."""

    #: How many loaves it bakes well at a time.
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
