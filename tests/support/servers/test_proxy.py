"""The proxy that tests put before a server: when it goes, no connection is left."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.servers.proxy import Proxy
from tests.support.wait import WAIT_TIMEOUT_SECONDS, until

pytestmark = pytest.mark.anyio

#: The state of a TCP connection that waits for its server, as Linux writes it.
SYN_SENT = "02"


class Where(NamedTuple):
    host: str
    port: int


async def test_a_connection_that_the_proxy_has_just_accepted_is_cut_when_the_proxy_closes() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        where = Where(*server.getsockname())
        first = socket.create_connection(where)  # the server takes no second one before this is accepted
        with Proxy(where) as proxy, first, socket.create_connection((proxy.host, proxy.port)) as client:
            await until(lambda: is_awaited(where.port))
            proxy.go()
            with server.accept()[0], server.accept()[0]:
                client.settimeout(WAIT_TIMEOUT_SECONDS)
                assert client.recv(1) == b""


def is_awaited(port: int) -> bool:
    """Whether a connect to this port waits for the server."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[2].endswith(f":{port:04X}") and line.split()[3] == SYN_SENT for line in lines)
