"""Statements that end a transaction are found, and others are not refused."""

from __future__ import annotations

import pytest

from steady_queue.db.ending_statements import find_ending_statement

VENDORS = ("postgresql", "mysql", "sqlite")
ENDING = {
    "COMMIT": VENDORS,
    "  commit work": VENDORS,
    "-- a comment\nCOMMIT": VENDORS,
    "/* a comment */ COMMIT": VENDORS,
    "/*!40000 COMMIT */": ("mysql",),
    ";COMMIT": VENDORS,
    "ROLLBACK": VENDORS,
    "rollback transaction": VENDORS,
    "ABORT": ("postgresql",),
    "BEGIN IMMEDIATE": VENDORS,
    "END": VENDORS,
    "START TRANSACTION": VENDORS,
    "PREPARE TRANSACTION 'name'": ("postgresql",),
    "SELECT 1; COMMIT": ("postgresql", "mysql"),
    "INSERT INTO t VALUES ('a;b'); rollback;": ("postgresql", "mysql"),
    "SELECT $$ COMMIT; $$; END": ("postgresql",),
    "SET autocommit = 1": ("mysql",),
    "SET SESSION autocommit=1": ("mysql",),
    "SET @@session.autocommit = 1": ("mysql",),
    "CREATE TABLE t (id int)": ("mysql",),
    "TRUNCATE t": ("mysql",),
    "LOCK TABLES t WRITE": ("mysql",),
    # behind comments
    "-- a comment\n  commit;": VENDORS,
    "-- a comment\rCOMMIT;": ("postgresql",),
    "/* a comment */ COMMIT;": VENDORS,
    "SELECT 1; -- a comment\n COMMIT;": VENDORS,
    "SELECT 1; /* a; comment */ COMMIT;": VENDORS,
    "/* /* nested */ */ COMMIT": ("postgresql",),
    "/* /* nested */ ' */ COMMIT; SELECT ' '": ("postgresql",),
    "/* a /* comment */ COMMIT": ("mysql", "sqlite"),
    "# a comment\nCOMMIT": ("mysql",),
    "SELECT 1; # it's\nCOMMIT": ("mysql",),
    "-- a comment\nTRUNCATE t;": ("mysql",),
    "/*! COMMIT */": ("mysql",),
    "/*M! COMMIT */": ("mysql",),
    "/*M!100301 COMMIT */": ("mysql",),
    "/*!40000 /* inside */ COMMIT */;": ("mysql",),
    "/*!99999 ' */ COMMIT; -- '": ("mysql",),
    "SELECT 1 --1; COMMIT": ("mysql",),
    "\ufeffCOMMIT": ("sqlite",),
    # behind strings
    r"SELECT 'a\'; COMMIT; --'": ("postgresql", "mysql"),
    r"SELECT E'a\''; COMMIT; --'": ("postgresql",),
    r"SELECT 'a\\'; COMMIT": ("postgresql", "mysql"),
    "SELECT a$b$; COMMIT; SELECT a$b$": ("postgresql",),
    "SELECT [a;b]; COMMIT": ("sqlite",),
    # in other statements
    "SET @a=1, autocommit=1": ("mysql",),
    "SET @a = 'x', @@SESSION . autocommit = ON": ("mysql",),
    "SET `autocommit` = 1": ("mysql",),
    "SET PASSWORD = 'x'": ("mysql",),
    "SET STATEMENT max_statement_time = 1 FOR COMMIT": ("mysql",),
    "EXECUTE IMMEDIATE 'COMMIT'": ("mysql",),
    "PREPARE plan FROM 'TRUNCATE t'": ("mysql",),
    "BEGIN NOT ATOMIC COMMIT; END": ("mysql",),
    "IF 1 THEN COMMIT; END IF": ("mysql",),
    "one: LOOP COMMIT; END LOOP": ("mysql",),
    "ANALYZE TABLE t": ("mysql",),
}
HARMLESS = {
    "SELECT 1": VENDORS,
    "": VENDORS,
    "SELECT 'COMMIT'": VENDORS,
    "SELECT 'a; COMMIT'": ("postgresql", "mysql"),
    'SELECT "a; COMMIT"': ("postgresql", "mysql"),
    "SELECT 'it''s; COMMIT'": ("postgresql", "mysql"),
    r"SELECT 'it\'s'; SELECT 1": ("mysql",),
    r"SELECT E'it\'s; COMMIT'": ("postgresql",),
    "/* COMMIT; */ SELECT 1;": VENDORS,
    "/* /* COMMIT; */ COMMIT; */ SELECT 1": ("postgresql",),
    "/*! SELECT */ 1; -- COMMIT": ("mysql",),
    "SET STATEMENT max_statement_time = 1 FOR SELECT 1": ("mysql",),
    "ANALYZE SELECT 1": ("mysql",),
    "SET @a = 1, @autocommit = 1": ("mysql",),
    "PREPARE plan FROM 'UPDATE t SET a = ? WHERE b = ?'": ("mysql",),
    "EXECUTE plan USING @a": ("mysql",),
    "INSERT INTO t VALUES ('commit'); SELECT 'autocommit'": ("mysql",),
    "SELECT $a$ ; COMMIT $a$": ("postgresql",),
    "SELECT 1 -- ; COMMIT": ("postgresql", "mysql"),
    "SELECT 1 /* ; COMMIT */": ("postgresql", "mysql"),
    "SAVEPOINT one": VENDORS,
    "RELEASE SAVEPOINT one": VENDORS,
    "ROLLBACK TO SAVEPOINT one": VENDORS,
    "ROLLBACK WORK TO one": VENDORS,
    "PREPARE plan AS SELECT 1": ("postgresql",),
    "PREPARE plan FROM 'SELECT 1'": ("mysql",),
    "SET LOCAL statement_timeout = 1": ("postgresql",),
    "SET @autocommit = 1": ("mysql",),
    "SET SESSION TRANSACTION READ ONLY": ("mysql",),
    "CREATE TEMPORARY TABLE t (id int)": VENDORS,
    "DROP TEMPORARY TABLE t": ("mysql",),
    "CREATE TABLE t (id int)": ("postgresql", "sqlite"),
    "(SELECT 1) UNION (SELECT 2)": VENDORS,
    "WITH x AS (SELECT 1) SELECT * FROM x": VENDORS,
    "committee": VENDORS,
}


def pairs(table: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(text, vendor) for text, vendors in table.items() for vendor in vendors]


@pytest.mark.parametrize(("text", "vendor"), pairs(ENDING))
def test_a_statement_that_ends_a_transaction_is_found(text: str, vendor: str) -> None:
    assert find_ending_statement(text, vendor) is not None


@pytest.mark.parametrize(("text", "vendor"), pairs(HARMLESS))
def test_a_statement_that_leaves_the_transaction_open_is_not_refused(text: str, vendor: str) -> None:
    assert find_ending_statement(text, vendor) is None
