"""What every section is given: the servers, how long it may take, and where its figures go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.figures import Figures
    from tests.support.servers import MariaDB, Postgres

#: A quick run shows that everything works; its figures mean little.
QUICK = 10


@dataclass(frozen=True, slots=True)
class Scene:
    figures: Figures
    servers: dict[str, Postgres | MariaDB]
    rounds: int
    quick: bool = False
    #: Interpreters of peers that live in other environments, by name.
    pythons: dict[str, str] = field(default_factory=dict)

    def few(self, many: int) -> int:
        """So many, or a tenth in a quick run."""
        return many // QUICK if self.quick else many

    @property
    def postgres(self) -> Postgres:
        from tests.support.servers import Postgres

        server = self.servers["postgres"]
        assert isinstance(server, Postgres)
        return server
