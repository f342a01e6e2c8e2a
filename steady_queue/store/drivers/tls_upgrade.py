"""asyncpg's request for encryption, without an error that is never retrieved.

asyncpg makes a future for the server's answer together with the protocol. A connect that is cancelled after the socket
was connected, and before `loop.create_connection()` has returned, never awaits that future: its transport is closed,
the future gets a ConnectionError ("unexpected connection_lost() call"), and the event loop reports "Future exception
was never retrieved" although nothing is wrong. Code that awaits the future still gets the error.
"""

from __future__ import annotations

from typing import Any

from asyncpg import connect_utils


def retrieve_upgrade_errors() -> None:
    """Make asyncpg mark such an error as retrieved, for every connection of this process."""
    upgrade: Any = getattr(connect_utils, "TLSUpgradeProto", None)
    if upgrade is None or hasattr(upgrade, "is_retrieving"):
        return

    def connection_lost(self: Any, exc: Exception | None) -> None:
        upgrade.connection_lost(self, exc)
        if self.on_data.done() and not self.on_data.cancelled():
            self.on_data.exception()

    members = {"connection_lost": connection_lost, "is_retrieving": True}
    connect_utils.TLSUpgradeProto = type("RetrievingUpgrade", (upgrade,), members)
