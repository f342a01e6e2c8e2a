"""Errors by code: the kind of each SQLSTATE, MySQL number and SQLite code."""

from __future__ import annotations

from typing import Any

import pytest

from steady_queue.errors import StoreBug, StoreConflict, StoreDataError, StoreError, StoreUnavailable
from steady_queue.store.drivers.error_codes import mysql_error, postgres_error, sqlite_error

# -- by code ----------------------------------------------------------------------------------------------------------

POSTGRES: dict[type[StoreError], list[str | None]] = {
    StoreUnavailable: [
        None,  # no answer at all
        *("08000", "08001", "08003", "08006", "08P01"),  # connections
        *("53000", "53100", "53200", "53300", "53400"),  # disk full, out of memory, too many connections
        *("57P01", "57P02", "57P03", "57P05", "57014"),  # shutdown, crash, starting, idle session, timeout
        *("58000", "58030", "25006", "25P03"),  # system, I/O, read-only standby, idle in transaction
    ],
    StoreConflict: ["40001", "40P01", "55P03"],
    StoreDataError: ["22001", "22003", "22021", "22P02", "22P05", "23502", "23505", "23514"],
    StoreBug: ["42P01", "42703", "42601", "42501", "28P01", "3D000", "0A000", "25P02", "XX000", "P0001"],
}

MYSQL: dict[type[StoreError], list[int | None]] = {
    StoreUnavailable: [
        *(None, 0),
        *(2002, 2003, 2006, 2013, 2055),  # refused, gone, lost
        *(1040, 1203, 1226),  # too many connections
        *(1053, 1927, 1317, 1158, 1159, 1160, 1161),  # shutdown, killed, interrupted, packets lost
        *(1290, 1792, 1836, 1047),  # read-only, not ready (Galera)
        *(1021, 1114, 1030),  # disk full, table full, I/O
        *(1969, 3024, 4031),  # statement and idle time-outs
    ],
    StoreConflict: [1205, 1213, 1020, 3572],
    StoreDataError: [1048, 1062, 1153, 1264, 1265, 1292, 1366, 1406],
    StoreBug: [1045, 1049, 1054, 1064, 1142, 1146, 1267, 1305],
}

SQLITE: dict[type[StoreError], list[int | None]] = {
    StoreUnavailable: [5, 6, 7, 8, 10, 13, 14, 5 | 2 << 8, 8 | 4 << 8, 10 | 12 << 8],  # extended codes too
    StoreConflict: [17],
    StoreDataError: [18, 19, 20, 25, 19 | 8 << 8, 19 | 6 << 8],
    StoreBug: [None, 1, 11, 21, 26],
}


def rows(table: dict[type[StoreError], list[Any]]) -> list[tuple[Any, type[StoreError]]]:
    return [(code, kind) for kind, codes in table.items() for code in codes]


@pytest.mark.parametrize(("code", "kind"), rows(POSTGRES))
def test_every_sqlstate_has_its_kind(code: str | None, kind: type[StoreError]) -> None:
    assert postgres_error(code) is kind


@pytest.mark.parametrize(("code", "kind"), rows(MYSQL))
def test_every_mysql_number_has_its_kind(code: int | None, kind: type[StoreError]) -> None:
    assert mysql_error(code) is kind


@pytest.mark.parametrize(("code", "kind"), rows(SQLITE))
def test_every_sqlite_code_has_its_kind(code: int | None, kind: type[StoreError]) -> None:
    assert sqlite_error(code) is kind
