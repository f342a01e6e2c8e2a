"""The dashboard while the only database of the project is away, on a real web server."""

from __future__ import annotations

import json
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from tests.browser.site import start_server
from tests.support.processes.printing_process import HOST
from tests.support.wait import WAIT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from tests.support.servers.proxy import Proxy

OVERVIEW = "/admin/steady_queue/overview/"
#: A visitor who has been there before: the session is looked up in the database.
COOKIE = {"Cookie": "sessionid=0123456789abcdefghijklmnopqrstuv"}


def request(port: int, path: str, headers: dict[str, str] = COOKIE) -> tuple[int, str]:
    """The status and the text of a response."""
    connection = HTTPConnection(HOST, port, timeout=WAIT_TIMEOUT_SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.mark.only_on("postgres", "mariadb")  # SQLite has no server that could be away
def test_pages_say_that_the_database_is_away_also_if_requests_are_transactions(database: str, proxy: Proxy) -> None:
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.dashboard.atomic_settings",
        "STEADY_QUEUE_ATOMIC_DATABASE": database,
        f"STEADY_QUEUE_TEST_{database.upper()}_PORT": str(proxy.port),
    }
    with ExitStack() as stack:
        port, server = start_server(stack, database, environment)
        assert request(port, OVERVIEW, {})[0] == 302  # to the page to log in
        proxy.go()
        for path in (OVERVIEW, "/admin/steady_queue/job/", "/admin/steady_queue/recurringtask/add/"):
            status, page = request(port, path)
            assert (status, "The database cannot be read." in page) == (503, True), server.printed
        status, text = request(port, f"{OVERVIEW}json/")
        assert (status, json.loads(text)) == (503, {"error": "The database cannot be read."})
