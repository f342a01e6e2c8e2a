"""Measures what the pages of the dashboard cost with much data: `python -m benchmarks.dashboard`.

Each page is requested in turn over a large and over an empty database of the same server, so that other load on the
machine slows both. The time is that of the whole request, with templates and all queries.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.support.options import positive
from benchmarks.support.report import Figures
from benchmarks.support.servers import databases, version
from tests.support.servers import ServerMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.test import Client

    from benchmarks.dashboard.pages import Page

ALIAS = "postgres"
ROUNDS, WARM_UPS = 31, 3
QUICK_DIVISOR, QUICK_ROUNDS = 50, 3
MOST_TIMES, MOST_QUERIES = 5.0, 15
DESCRIPTION = """\
Measure what the pages of the dashboard cost with 1,000,000 finished, 100,000 ready,
10,000 failed and 5,000 running tasks on PostgreSQL, compared with an empty database.
The exit status is 1 if a page takes more than 5 times as long or makes more than 15
queries on the queue's database.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the pages and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dashboard",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help="requests of each page (default: %(default)s)")
    parser.add_argument("--only", default="", help="measure only pages whose names contain this")
    parser.add_argument("--quick", action="store_true", help="far fewer rows, to check that the benchmark works")
    options = parser.parse_args(arguments)
    rounds = QUICK_ROUNDS if options.quick else options.rounds
    figures = Figures()
    os.environ["STEADY_QUEUE_TEST_ADMIN"] = "1"
    try:
        with databases([ALIAS]):
            _measure(figures, rounds, only=options.only, quick=options.quick)
    except ServerMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    figures.print_summary(rounds)
    return figures.exit_status


def _measure(figures: Figures, rounds: int, *, only: str, quick: bool) -> None:
    # Imported here, because the modules need Django to be set up.
    from benchmarks.dashboard.pages import find_pages
    from benchmarks.dashboard.rows import Rows, fill
    from benchmarks.support.second_database import second_database

    rows = Rows(*(number // QUICK_DIVISOR for number in Rows())) if quick else Rows()
    with second_database(ALIAS, "large") as large:
        figures.start_section("dashboard", f"Pages of the dashboard, {version(ALIAS)}")
        started = time.monotonic()
        fill(large, rows)
        stored = ", ".join(f"{number:,} {name}" for name, number in rows._asdict().items())
        figures.print_line(f"stored {stored} tasks in {time.monotonic() - started:.0f} s")
        client = _log_in()
        for page in find_pages():
            if only in page.name:
                _compare(figures, client, page, large, rounds)


def _log_in() -> Client:
    """A client of a user with all permissions, in the default database."""
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.test import Client

    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", database="default", verbosity=0)
    client = Client()
    users: Any = get_user_model()._default_manager
    client.force_login(users.create_superuser("Ada"))
    return client


def _compare(figures: Figures, client: Client, page: Page, large: str, rounds: int) -> None:
    times: dict[str, list[float]] = {large: [], ALIAS: []}
    for _ in range(rounds + WARM_UPS):
        for alias, seconds in times.items():
            seconds.append(_request(client, page, alias))
    large_ms, empty_ms = (median(seconds[WARM_UPS:]) * 1000 for seconds in times.values())
    queries = _count_queries(client, page, large)
    note = f"{large_ms:.0f} ms, empty {empty_ms:.0f} ms, {queries} queries"
    figures.add(page.name, large_ms / empty_ms, "times", target=MOST_TIMES, at_most=True, note=note)
    if queries > MOST_QUERIES:
        figures.add_problems([f"{page.name}: {queries} queries, more than {MOST_QUERIES}"])


def _request(client: Client, page: Page, alias: str) -> float:
    import steady_queue

    steady_queue.database = alias
    started = time.perf_counter()
    response = client.get(page.url)
    seconds = time.perf_counter() - started
    assert response.status_code == 200, f"{page.url}: {response.status_code}"
    return seconds


def _count_queries(client: Client, page: Page, alias: str) -> int:
    from django.db import connections
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connections[alias]) as queries:
        _request(client, page, alias)
    return len(queries)


if __name__ == "__main__":
    sys.exit(main())
