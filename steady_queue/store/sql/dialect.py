"""What differs between the servers: words, verbs for lookups by id, and how values are passed and returned.

Portable statements are written with `?` for a value and `IN ?*` for a list of values. Tables are named without their
prefix where a method takes one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from steady_queue.errors import StoreDataError
from steady_queue.store.sql.values import RESTORE
from steady_queue.store.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from steady_queue.store.job import Claim, NewJob
    from steady_queue.store.operations.claim import ClaimRequest
    from steady_queue.store.operations.promote import Grant
    from steady_queue.store.operations.task_data import Report
    from steady_queue.store.outcome import Attempt, Finished, Outcome
    from steady_queue.store.statement import Flow, Row

_PLACEHOLDER = re.compile(r"\?\*?")
#: Values of these types, which most values have, are the same for every driver.
_PLAIN = frozenset((str, int, bytes, type(None)))
#: The primary keys that are not `job_id`.
_KEYS = {
    "job": "id",
    "process": "id",
    "lockbucket": "id",
    "processrequest": "id",
    "taskstatistics": "id",
    "uniquekey": "unique_key",
}

#: Error messages about a value may quote it, and are cut to this length.
MESSAGE_CHARACTERS = 500

#: 500 years: longer ago than anything was stored, and a time that every server can represent.
MAX_AGO_SECONDS = 500 * 365.25 * 86_400.0

#: The names of queues with ready jobs, found by one index lookup for each, and a NULL after the last.
QUEUE_NAMES = (
    "WITH RECURSIVE names(name) AS (SELECT min(queue_name) FROM steady_queue_readyexecution UNION ALL"
    " SELECT (SELECT min(r.queue_name) FROM steady_queue_readyexecution r WHERE r.queue_name > names.name)"
    " FROM names WHERE names.name IS NOT NULL)"
)


def key_of(table: str) -> str:
    """The primary key column of a table."""
    return _KEYS.get(table, "job_id")


class SingleStatements(Protocol):
    """The hot operations, each as one statement: no transaction, no second round trip."""

    def insert_ready(self, jobs: Sequence[NewJob]) -> Statement: ...
    def insert_and_notify(self, job: NewJob) -> Statement: ...
    def insert_scheduled(self, jobs: Sequence[NewJob]) -> Statement: ...
    def insert_blocked(self, jobs: Sequence[NewJob]) -> Statement: ...
    def find_blocked(self, wants: Mapping[str, int]) -> Statement: ...
    def grant(self, grants: Sequence[Grant]) -> Statement: ...
    def claim(self, *requests: ClaimRequest) -> Statement: ...
    def claim_from_all(self, *requests: ClaimRequest) -> Statement: ...
    def finish_claims(
        self, outcomes: Sequence[Finished], *, process_name: str, preserve: bool, by_owner: bool
    ) -> Statement: ...
    def end_claims(
        self, outcomes: Sequence[Outcome], *, process_name: str, preserve: bool, by_owner: bool
    ) -> Statement: ...
    def save_task_data(self, claim: Claim, column: str, text: str) -> Statement: ...
    def move_due(self, limit: int) -> Statement: ...
    def write_reports(self, reports: Sequence[Report], log_characters: int) -> Statement: ...


class Dialect:
    """The SQL of one server. The defaults are those of MySQL and MariaDB, or standard SQL."""

    name = ""
    #: The hot operations as single statements, where the server has them.
    single_statements: SingleStatements | None = None
    #: Whether the server can notify listeners.
    can_notify = False
    placeholder = "?"
    #: The server's time as an expression, in UTC.
    now = ""
    #: Locks the rows that a read finds, waiting for other transactions or skipping the rows that they have locked.
    for_update = " FOR UPDATE"
    for_update_skip_locked = " FOR UPDATE SKIP LOCKED"
    #: Whether such a read, in a transaction of the caller's, may lock gaps between rows.
    locks_gaps = False
    #: Stands after the name of a table whose rows are looked up by primary key, where the optimizer needs the hint.
    by_id = ""
    #: The tables of the polls, with the index hint where the optimizer needs one.
    ready_by_queue = "steady_queue_readyexecution r"
    ready_all = "steady_queue_readyexecution r"
    blocked_by_key = "steady_queue_blockedexecution"
    scheduled_due = "steady_queue_scheduledexecution"
    expiry_by_time = "steady_queue_expiry"
    keys_by_job = "steady_queue_uniquekey"
    statistics_by_time = "steady_queue_taskstatistics"
    #: The next keys of blocked jobs after a bound one, in order and at most a bound number, by index lookups as well.
    blocked_keys = (
        "WITH RECURSIVE found(name, place) AS"
        " (SELECT min(concurrency_key), 1 FROM steady_queue_blockedexecution WHERE concurrency_key > ? UNION ALL"
        " SELECT (SELECT min(b.concurrency_key) FROM steady_queue_blockedexecution b"
        " WHERE b.concurrency_key > found.name), found.place + 1"
        " FROM found WHERE found.name IS NOT NULL AND found.place < ?) SELECT name FROM found WHERE name IS NOT NULL"
    )
    #: A bound list of names as rows `n` with their `name` and `place`, where any subquery may refer to them.
    names_as_rows = ""
    #: The functions that return the lower and the higher of two numbers.
    least, greatest = "LEAST", "GREATEST"
    #: Selects the server's version.
    server_version = "SELECT version()"
    #: Selects whether the database has the table of a bound name.
    has_table = "SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name = ?"
    #: Selects table and name of each column of the queue's tables.
    table_columns = (
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = database() AND LEFT(table_name, 13) = 'steady_queue_'"
    )
    #: Selects table, name, character set and collation of the queue's text columns, where they may differ.
    text_columns = ""
    #: How many reports of tasks are written by one statement.
    reports_per_statement = 1_000
    #: Selects a number that changes with the writes of other connections, where there is one.
    change_marker = ""
    #: Selects the seconds since the oldest open transaction of another connection began, the id and the name of that
    #: connection and its user, where the server shows them.
    oldest_transaction = ""

    # -- statements ---------------------------------------------------------------------------------------------------

    def statement(self, text: str, *params: Any, returns: str = "") -> Statement:
        """A portable statement in this server's style; a list among `params` belongs to a `?*`."""
        sizes = tuple(len(param) for param in params if isinstance(param, (list, tuple)))
        flat: list[Any] = []
        for param in params:
            if isinstance(param, (list, tuple)):
                flat.extend(param)
            else:
                flat.append(param)
        return Statement(spread(text, sizes, self.placeholder), flat, returns)

    def statement_each(self, text: str, rows: Sequence[Sequence[Any]]) -> Statement:
        """A portable statement that runs once for each row of parameters."""
        return Statement(spread(text, (), self.placeholder), rows, many=True)

    def statement_for_ids(self, text: str, ids: Sequence[Any], returns: str = "") -> Statement:
        """A portable statement whose only parameter is one list."""
        return Statement(spread(text, (len(ids),), self.placeholder), ids, returns)

    def select(
        self, table: str, columns: str, ids: Sequence[Any], *, returns: str, is_ordered: bool = False
    ) -> Statement:
        """Read columns of the rows with these ids; `is_ordered`: in the order of the ids."""
        return self.statement_for_ids(_select_text(table, columns, is_ordered), ids, returns)

    def lock(
        self,
        table: str,
        columns: str,
        ids: Sequence[Any],
        *,
        returns: str,
        skip_locked: bool = False,
        is_ordered: bool = False,
    ) -> Statement:
        """The same, and lock these rows until the transaction ends; `is_ordered`: in the order of the ids."""
        lock = self.for_update_skip_locked if skip_locked else self.for_update
        return self.statement_for_ids(_select_text(table, columns, is_ordered, lock), ids, returns)

    def delete(self, table: str, ids: Sequence[Any]) -> Statement:
        """Delete the rows with these ids."""
        return self.statement_for_ids(_delete_text(table), ids)

    def delete_one(self, table: str, id_: Any) -> Statement:
        """Delete the row with this id."""
        return self.statement(f"DELETE FROM steady_queue_{table} WHERE {key_of(table)} = ?", id_)

    def insert_new(self, into: str) -> str:
        """An insert that skips rows whose unique values exist, and waits for the transaction that writes them."""
        return f"INSERT INTO {into} ON CONFLICT DO NOTHING"

    def insert_or_lock(self, into: str) -> str:
        """The same, for rows that are locked next: an insert that locks those that exist must not lock them less."""
        return self.insert_new(into)

    def insert_or_update(self, into: str, key: Sequence[str], changes: Mapping[str, str]) -> str:
        """An insert that changes a row whose unique key exists, with an expression of `{old}` and `{new}` values."""
        table = into.split()[0]
        values = {name: how.format(old=f"{table}.{name}", new=f"excluded.{name}") for name, how in changes.items()}
        sets = ", ".join(f"{name} = {value}" for name, value in values.items())
        return f"INSERT INTO {into} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {sets}"

    # -- time ---------------------------------------------------------------------------------------------------------

    def ago(self, seconds: float) -> str:
        """The server's time this many seconds ago, at most 500 years, as an expression."""
        return self.literal_ago(min(seconds, MAX_AGO_SECONDS))

    def literal_ago(self, seconds: float) -> str:
        raise NotImplementedError

    def microseconds_ago(self, number: str = "?") -> str:
        """The server's time as many microseconds ago as an expression says, which is bound by default."""
        raise NotImplementedError

    def column_ago(self, column: str) -> str:
        """The server's time as many microseconds ago as the column has, at most 500 years, as an expression."""
        return self.microseconds_ago(f"{self.least}({column}, {round(MAX_AGO_SECONDS * 1_000_000)})")

    # -- flows --------------------------------------------------------------------------------------------------------

    def queue_names(self) -> Flow[list[str]]:
        """The names of the queues that have ready jobs, in order, by one index lookup for each."""
        rows = yield self.statement(f"{QUEUE_NAMES} SELECT name FROM names WHERE name IS NOT NULL", returns=".")
        return [row[0] for row in rows]

    def waiting_queues(self) -> Flow[list[Row]]:
        """The queues that are not paused, with each lane that they have ready jobs for; a NULL when any is paused."""
        raise NotImplementedError

    def lock_keys(self, lock_ids: Sequence[int], wait_seconds: int | None = None) -> Flow[None]:
        """Lock these ids, given in ascending order, until the transaction ends; fail after `wait_seconds` for one."""
        raise NotImplementedError

    def try_maintenance(self) -> Flow[bool]:
        """Take the lock of maintenance until the transaction ends; False when another process has it."""
        raise NotImplementedError

    def first_blocked(self, wants: Mapping[str, int]) -> Flow[list[tuple[str, UUID]]]:
        """The first blocked jobs of each key, as many as are wanted, in order; rows that are locked are skipped."""
        found: list[tuple[str, UUID]] = []
        for key, count in wants.items():
            rows = yield self.statement(
                f"SELECT job_id FROM {self.blocked_by_key} WHERE concurrency_key = ?"
                f" ORDER BY priority DESC, job_id LIMIT ?{self.for_update_skip_locked}",
                key,
                count,
                returns="u",
            )
            found.extend((key, row[0]) for row in rows)
        return found

    def update_attempts(self, attempts: Sequence[Attempt], process_name: str, by_owner: bool) -> Flow[None]:
        """Write each ended attempt into its job, while its claimed row still exists."""
        raise NotImplementedError

    def update_reports(self, reports: Sequence[Report], log_characters: int) -> Statement:
        """Write the reports of tasks into their jobs, whose rows are locked, and keep so much of each log."""
        raise NotImplementedError

    # -- values -------------------------------------------------------------------------------------------------------

    def encode(self, value: Any) -> Any:
        """A parameter as the server's drivers take it."""
        if isinstance(value, UUID):
            return f"{value.int:032x}"
        return int(value) if isinstance(value, bool) else value

    def params(self, statement: Statement) -> Sequence[Any]:
        """The parameters of a statement as the server's drivers take them."""
        encode, plain = self.encode, _PLAIN
        try:
            if statement.many:
                return [[v if v.__class__ in plain else encode(v) for v in row] for row in statement.params]
            return [v if v.__class__ in plain else encode(v) for v in statement.params]
        except (ValueError, OverflowError) as error:
            raise StoreDataError(f"a value cannot be converted: {error}"[:MESSAGE_CHARACTERS]) from error

    def rows(self, statement: Statement, rows: Iterable[Row]) -> list[Row]:
        """Rows from a driver, with the columns of `returns` converted to their types."""
        columns = [(at, RESTORE[letter]) for at, letter in enumerate(statement.returns) if letter in RESTORE]
        if not columns:
            return list(rows)
        restored: list[Row] = []
        try:
            for row in rows:
                values = list(row)
                for at, restore in columns:
                    if values[at] is not None:
                        values[at] = restore(values[at])
                restored.append(values)
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            # SQLite stores any text in a column of another type, and MySQL zeros as a time.
            raise StoreDataError(f"a stored value cannot be read: {error}"[:MESSAGE_CHARACTERS]) from error
        return restored


@lru_cache(maxsize=512)
def _select_text(table: str, columns: str, is_ordered: bool, lock: str = "") -> str:
    key = key_of(table)
    order = f" ORDER BY {key}" if is_ordered else ""
    return f"SELECT {columns} FROM steady_queue_{table} WHERE {key} IN ?*{order}{lock}"


@lru_cache
def _delete_text(table: str) -> str:
    return f"DELETE FROM steady_queue_{table} WHERE {key_of(table)} IN ?*"


@lru_cache(maxsize=1024)
def spread(text: str, sizes: tuple[int, ...], placeholder: str) -> str:
    """`text` with each `?` as `placeholder`, and each `?*` as a list of as many as its value has items."""
    remaining = iter(sizes)

    def fill(found: re.Match[str]) -> str:
        return f"({', '.join([placeholder] * next(remaining))})" if found[0] == "?*" else placeholder

    return _PLACEHOLDER.sub(fill, text)
