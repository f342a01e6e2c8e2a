"""What the tests of transactions share."""

from __future__ import annotations

from tests.support.databases.tables import count
from tests.support.threads import WAIT_TIMEOUT_SECONDS, while_in_thread

OURS = "steady_queue.backend.SteadyQueueBackend"


class Boom(Exception):
    pass


def seen_by_others(alias: str) -> int:
    """The jobs that another connection sees: the committed ones."""
    with while_in_thread(lambda: count(alias, "job")) as found:
        return found.result(WAIT_TIMEOUT_SECONDS)
