"""How the databases carry out our statements: each one explained in its place, just before it is executed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from steady_queue.store.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steady_queue.store.statement import Flow, Row

T = TypeVar("T")


@dataclass(frozen=True)
class Access:
    """A table that a statement reads: by looking up in an index, or by going through all of it."""

    table: str
    index: str
    is_lookup: bool


@dataclass
class Plan:
    """What a server does for one statement."""

    statement: str
    accesses: list[Access] = field(default_factory=list)
    #: The tables whose rows are sorted after they were read.
    sorted: set[str] = field(default_factory=set)
    #: The server's own words, for failures.
    words: str = ""

    def __str__(self) -> str:
        return f"{self.statement}\n{self.words}"

    def scans(self) -> list[Access]:
        return [access for access in self.accesses if not access.is_lookup]


def explained(flow: Flow[T], explain: Callable[[Statement], Flow[Plan]], plans: list[Plan]) -> Flow[T]:
    """The flow, with the plan of each of its statements added to `plans`."""
    try:
        statement = next(flow)
        while True:
            if not statement.many or statement.params:
                plans.append((yield from explain(statement)))
            statement = flow.send((yield statement))
    except StopIteration as done:
        result: T = done.value
        return result


def _about(statement: Statement, prefix: str, returns: str) -> Statement:
    params = statement.params[0] if statement.many else statement.params
    return replace(statement, text=f"{prefix} {statement.text}", params=params, returns=returns, many=False)


def _tables(text: str) -> dict[str, str]:
    """The table behind each name in a statement."""
    found = re.findall(r"steady_queue_(\w+)(?: (?:AS )?([a-z])\b)?", text)
    return {name: table for table, alias in found for name in (f"steady_queue_{table}", alias) if name}


# -- PostgreSQL -------------------------------------------------------------------------------------------------------


def explain_postgres(statement: Statement) -> Flow[Plan]:
    """With the values given: what the first executions of a statement get."""
    rows = yield _about(statement, "EXPLAIN (FORMAT JSON)", ".")
    return _postgres_plan(statement.text, rows)


def explain_postgres_generic(statement: Statement) -> Flow[Plan]:
    """Without looking at the values: what a statement gets that was executed often and is cached."""
    count = len(statement.params[0] if statement.many else statement.params)
    arguments = f"({', '.join(['NULL'] * count)})" if count else ""
    yield Statement("SET LOCAL plan_cache_mode = force_generic_plan")
    yield Statement(f"PREPARE guard AS {statement.text}")
    rows = yield Statement(f"EXPLAIN (FORMAT JSON) EXECUTE guard{arguments}", returns=".")
    yield Statement("DEALLOCATE guard")
    yield Statement("SET LOCAL plan_cache_mode = auto")
    return _postgres_plan(statement.text, rows)


def _postgres_plan(text: str, rows: list[Row]) -> Plan:
    tree = json.loads(rows[0][0])[0]["Plan"]
    plan = Plan(text, words=json.dumps(tree, indent=1))
    for node in _nodes(tree):
        kind, table = node["Node Type"], node.get("Relation Name", "").removeprefix("steady_queue_")
        if table and kind.endswith("Scan"):
            index = node.get("Index Name", "")
            # Of a key that is a text Django makes two indexes, which are the same in the collation that we give it.
            is_primary = index == f"steady_queue_{table}_pkey" or index.endswith("_like")
            name = "primary" if is_primary else index
            plan.accesses.append(Access(table, name, "Index Cond" in node))
        if kind in ("Sort", "Incremental Sort"):
            # What came through a limit, or out of a subplan, has been chosen by then: there are few.
            below = (below.get("Relation Name", "") for below in _nodes(node, not_into=("Limit", "CTE Scan")))
            plan.sorted |= {name.removeprefix("steady_queue_") for name in below if name}
    return plan


def _nodes(node: dict[str, Any], not_into: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        if not not_into or ("Subplan Name" not in child and child["Node Type"] not in not_into):
            yield from _nodes(child, not_into)


# -- MariaDB ----------------------------------------------------------------------------------------------------------

_MARIADB_FULL = ("ALL", "index")


def explain_mariadb(statement: Statement) -> Flow[Plan]:
    rows = yield _about(statement, "EXPLAIN", "." * 10)
    tables = _tables(statement.text)
    plan = Plan(statement.text, words="\n".join(map(str, rows)))
    only_reads = statement.text.startswith("SELECT") and "FOR UPDATE" not in statement.text
    for _, select_type, name, kind, _, key, _, _, count, extra in rows:
        table = tables.get(str(name), "")
        if table and kind is not None and select_type != "INSERT":
            index = str(key or "").replace("PRIMARY", "primary")
            if kind in _MARIADB_FULL and only_reads and int(count) <= len(statement.params):
                # Asked for more rows than the table has, it reads the table; that locks nothing and is as quick.
                index, kind = "primary", "range"
            plan.accesses.append(Access(table, index, kind not in _MARIADB_FULL))
        if re.search("filesort|temporary", str(extra)):
            plan.sorted.add(table or str(name))
        if "reading const tables" in str(extra):
            # It looked a row up by its whole key already while it planned, and found none.
            plan.accesses.extend(Access(table, "primary", True) for table in tables.values())
    return plan


# -- SQLite -----------------------------------------------------------------------------------------------------------

_SQLITE_STEP = re.compile(r"(SCAN|SEARCH) (?!CONSTANT ROW)(\w+)(?: USING (?:COVERING )?INDEX (\w+))?")
#: SQLite names the indexes of constraints by itself.
_SQLITE_NAMES = {
    "sqlite_autoindex_steady_queue_semaphore_2": "sq_semaphore_slot",
    "sqlite_autoindex_steady_queue_recurringexecution_2": "sq_recurring_tick",
}


def explain_sqlite(statement: Statement) -> Flow[Plan]:
    rows = yield _about(statement, "EXPLAIN QUERY PLAN", "....")
    tables = _tables(statement.text)
    plan = Plan(statement.text, words="\n".join(str(row[3]) for row in rows))
    for _, _, _, step in rows:
        # The reads of a subquery are listed next to it.
        if (found := _SQLITE_STEP.match(step)) and (table := tables.get(found[2], "")):
            index = found[3] or ""
            name = "primary" if re.fullmatch(r"sqlite_autoindex_\w+_1", index) else _SQLITE_NAMES.get(index, index)
            plan.accesses.append(Access(table, name, found[1] == "SEARCH"))
        if "TEMP B-TREE" in step:
            plan.sorted |= set(tables.values())
    return plan
