"""Finds SQL statements that end a transaction: a transactional task may not execute them.

The text is read as the server reads it: without comments, strings and quoted names. Where that depends on settings of
the server, it is read in every way that is possible, and refused if a statement ends the transaction in one of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The first word of a statement. A byte order mark is white space to SQLite.
_FIRST_WORD = re.compile(r"[\s\ufeff(;]*(\w+)")
#: Texts without any of these are one statement without comments.
_SPECIAL = re.compile(r";|--|/\*|#")
#: These end a transaction, or begin another, on every database.
_ENDING = frozenset(("COMMIT", "ROLLBACK", "BEGIN", "END", "ABORT", "START"))
#: MySQL commits before and after these. Not all of their forms do: see `_HARMLESS`.
_COMMITTING = {
    *("ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE", "GRANT", "REVOKE", "LOCK", "UNLOCK", "XA", "IMPORT", "BACKUP"),
    *("OPTIMIZE", "REPAIR", "FLUSH", "RESET", "CACHE", "INSTALL", "UNINSTALL", "CHANGE", "STOP"),
}
#: These commit in few of their forms.
_SOMETIMES = {"ANALYZE", "CHECK", "LOAD", "SET"}
#: MariaDB executes these as programs, which may contain any statement.
_COMPOUND = {"IF", "CASE", "LOOP", "REPEAT", "WHILE", "FOR"}
#: MySQL executes the text in these, or in a variable that they name.
_DYNAMIC = {"PREPARE", "EXECUTE"}
_FIRST_WORDS = {
    "postgresql": _ENDING | {"PREPARE"},
    "mysql": _ENDING | _COMMITTING | _SOMETIMES | _COMPOUND | _DYNAMIC,
    "sqlite": _ENDING,
}
#: Of databases that the queue cannot be in, where `BEGIN` may be a block of a program.
_OTHER = frozenset(("COMMIT", "ROLLBACK"))
#: Statements that begin with one of those words and do not end the transaction.
_HARMLESS = re.compile(
    r"""ROLLBACK(\s+(WORK|TRANSACTION))?\s+TO\b
    | PREPARE\s+(?!TRANSACTION\b)
    | EXECUTE\b
    | (CREATE(\s+OR\s+REPLACE)?|DROP)\s+TEMPORARY\s
    | DROP\s+PREPARE\b
    | ANALYZE\s+(?!((NO_WRITE_TO_BINLOG|LOCAL)\s+)?TABLES?\b)
    | LOAD\s+(?!INDEX\b)
    | SET\b(?!\s*(PASSWORD|DEFAULT\s+ROLE|STATEMENT)\b)
      (?!.*(?:[^\w$@.]|@@|\b(?:SESSION|LOCAL|GLOBAL)\s*\.\s*)AUTOCOMMIT\b)
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_DYNAMIC_ENDING = re.compile(rf"\b({'|'.join(sorted(_ENDING | _COMMITTING))}|AUTOCOMMIT)\b", re.IGNORECASE)
_STATEMENT_FOR = re.compile(r"SET\s+STATEMENT\b.*?\bFOR\b(.*)", re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(r"\s*:(?!=)")

#: What a quote begins, with and without backslashes that escape a character.
_ESCAPED = r"""(?:[^{0}\\]|\\.|{0}{0})*(?:{0}|\Z)"""
_LITERAL = r"""(?:[^{0}]|{0}{0})*(?:{0}|\Z)"""
_COMMENT = r"/\*.*?(?:\*/|\Z)"


def _pattern(vendor: str, *, escapes: bool, executes: bool) -> re.Pattern[str]:
    """What is not a part of a statement, in one of the ways to read a text.

    With `escapes`, a backslash escapes a quote. With `executes`, MySQL executes what is in the comments for it;
    otherwise its version is not one that does.
    """
    string = "'" + (_ESCAPED if escapes else _LITERAL).format("'")
    quoted = '"' + (_ESCAPED if escapes and vendor == "mysql" else _LITERAL).format('"')
    if vendor == "postgresql":
        # The end of a comment is found in another way: comments can be nested.
        parts = [r"--[^\n\r]*", r"/\*", rf"(?<![\w$])[eE]'{_ESCAPED.format(chr(39))}", string, f"(?P<name>{quoted})"]
        parts.append(r"(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z)")
    elif vendor == "mysql":
        comment = r"/\*M?!\d*|\*/|/\*(?!M?!).*?(?:\*/|\Z)" if executes else _COMMENT
        parts = [r"--(?=[\s\x00-\x1f]|\Z)[^\n]*", r"\#[^\n]*", comment, string, f"(?P<name>{quoted}|`[^`]*(?:`|\\Z))"]
    else:
        parts = [r"--[^\n]*", _COMMENT, string, rf"(?P<name>{quoted}|`[^`]*(?:`|\Z)|\[[^\]]*(?:\]|\Z))"]
    return re.compile("|".join(parts), re.DOTALL)


_PATTERNS = {
    (vendor, escapes, executes): _pattern(vendor, escapes=escapes, executes=executes)
    for vendor in ("postgresql", "mysql", "other")
    for escapes in (False, True)
    for executes in (False, True)
}
_NESTED = re.compile(r"/\*|\*/")


def find_ending_statement(text: str, vendor: str) -> str | None:
    """The first statement in the text that would end a transaction."""
    words = _FIRST_WORDS.get(vendor, _OTHER)
    if _SPECIAL.search(text) is None:
        found = _FIRST_WORD.match(text)
        if found is None or (found[1].upper() not in words and not _LABEL.match(text, found.end())):
            return None
    for statements in _readings(text, vendor):
        for statement in statements.split(";"):
            if _ends_transaction(statement, text, vendor):
                return statement.strip()
    return None


def _readings(text: str, vendor: str) -> Iterator[str]:
    """The text without comments and strings, in every way in which the server may read it."""
    dialect = vendor if vendor in ("postgresql", "mysql") else "other"
    may_escape = dialect != "other" and "\\" in text
    may_execute = dialect == "mysql" and ("/*!" in text or "/*M!" in text)
    for escapes in (False, True) if may_escape else (False,):
        for executes in (False, True) if may_execute else (False,):
            yield _read(text, _PATTERNS[dialect, escapes, executes], nests=dialect == "postgresql")


def _read(text: str, pattern: re.Pattern[str], *, nests: bool) -> str:
    parts: list[str] = []
    at = 0
    while found := pattern.search(text, at):
        parts += text[at : found.start()], _replacement(found)
        at = _end_of_comment(text, found.end()) if nests and found[0] == "/*" else found.end()
    return "".join((*parts, text[at:]))


def _replacement(found: re.Match[str]) -> str:
    if (name := found["name"]) is not None:
        # MySQL's `autocommit` may be quoted.
        return name[1:-1] if name[1:-1].isidentifier() else "''"
    return "''" if found[0][-1] in "'$" or found[0][0] in "'$eE" else " "


def _end_of_comment(text: str, at: int) -> int:
    depth = 1
    while depth and (found := _NESTED.search(text, at)):
        depth += 1 if found[0] == "/*" else -1
        at = found.end()
    return len(text) if depth else at


def _ends_transaction(statement: str, text: str, vendor: str) -> bool:
    found = _FIRST_WORD.match(statement)
    if found is None:
        return False
    word = found[1].upper()
    if word not in _FIRST_WORDS.get(vendor, _OTHER):
        return vendor == "mysql" and _LABEL.match(statement, found.end()) is not None
    if vendor == "mysql" and word in _DYNAMIC:
        return _DYNAMIC_ENDING.search(text) is not None
    if nested := _STATEMENT_FOR.match(statement, found.start(1)):
        return _ends_transaction(nested[1], text, vendor)
    return _HARMLESS.match(statement, found.start(1)) is None
