"""Finds SQL statements that end a transaction: a transactional task may not execute them."""

from __future__ import annotations

import re

#: The first word of a statement, after white space, comments and parentheses.
_FIRST_WORD = re.compile(
    r"(?:[\s(;]|--[^\n]*(?:\n|$)|/\*(?!!).*?\*/)*(?:/\*!\d*\s*)?([a-z]+)", re.IGNORECASE | re.DOTALL
)
#: These end a transaction, or begin another, on every database.
_ENDING = {"COMMIT", "ROLLBACK", "BEGIN", "END", "ABORT", "START"}
#: MySQL commits before and after these. Not all of their forms do: see `_HARMLESS`.
_COMMITTING = {
    *("ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE", "GRANT", "REVOKE", "LOCK", "UNLOCK", "XA"),
    *("OPTIMIZE", "REPAIR", "FLUSH", "RESET", "CACHE", "INSTALL", "UNINSTALL", "CHANGE", "STOP"),
}
_FIRST_WORDS = {
    "postgresql": _ENDING | {"PREPARE"},
    "mysql": _ENDING | _COMMITTING | {"SET"},
    "sqlite": _ENDING,
}
#: Statements that begin with one of those words and do not end the transaction.
_HARMLESS = re.compile(
    r"""ROLLBACK(\s+(WORK|TRANSACTION))?\s+TO\b
    | PREPARE\s+(?!TRANSACTION\b)
    | (CREATE(\s+OR\s+REPLACE)?|DROP)\s+TEMPORARY\s
    | SET\s+(?!((SESSION|LOCAL|GLOBAL)\s+|@@(SESSION\.|LOCAL\.|GLOBAL\.)?)?AUTOCOMMIT\b)(?!PASSWORD\b)""",
    re.IGNORECASE | re.VERBOSE,
)
#: What may contain a semicolon that does not end a statement: strings, quoted names, comments.
_QUOTED = {
    "postgresql": r"""'(?:[^']|'')*' | "[^"]*" | \$(\w*)\$.*?\$\1\$ | --[^\n]* | /\*.*?\*/""",
    "mysql": r"""'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `[^`]*` | --\s[^\n]* | \#[^\n]* | /\*(?!!).*?\*/""",
}
_QUOTED_PATTERNS = {vendor: re.compile(text, re.DOTALL | re.VERBOSE) for vendor, text in _QUOTED.items()}


def find_ending_statement(text: str, vendor: str) -> str | None:
    """The first statement in the text that would end a transaction."""
    statements = [text]
    # SQLite's driver refuses several statements at once.
    if ";" in text and vendor in _QUOTED_PATTERNS:
        statements = _QUOTED_PATTERNS[vendor].sub(" '' ", text).split(";")
    return next((each for each in statements if _ends_transaction(each, vendor)), None)


def _ends_transaction(statement: str, vendor: str) -> bool:
    found = _FIRST_WORD.match(statement)
    if found is None or found[1].upper() not in _FIRST_WORDS.get(vendor, _ENDING):
        return False
    return _HARMLESS.match(statement, found.start(1)) is None
