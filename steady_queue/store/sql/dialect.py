"""The words of a server, and how values cross its border.

Portable statements are written with `?` for a value and `IN ?*` for a list of values.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from steady_queue.errors import StoreDataError
from steady_queue.store.ids import uuid_of
from steady_queue.store.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from steady_queue.store.job import NewJob
    from steady_queue.store.operations.claim import ClaimRequest
    from steady_queue.store.operations.promote import Grant
    from steady_queue.store.outcome import Attempt, Outcome
    from steady_queue.store.statement import Flow, Row

_PLACEHOLDER = re.compile(r"\?\*?")
#: Values of these types, most of all, are the same for every driver.
_PLAIN = frozenset((str, int, bytes, type(None)))

#: Characters of an error about a value, which may quote it.
MESSAGE_CHARACTERS = 500

#: Longer ago than anything was stored, in seconds.
MAX_AGO_SECONDS = 500 * 365.25 * 86_400.0

#: The names of queues, one step down the index for each, and a NULL after the last.
QUEUE_NAMES = (
    "WITH RECURSIVE names(name) AS (SELECT min(queue_name) FROM steady_queue_readyexecution UNION ALL"
    " SELECT (SELECT min(r.queue_name) FROM steady_queue_readyexecution r WHERE r.queue_name > names.name)"
    " FROM names WHERE names.name IS NOT NULL)"
)


class SingleStatements(Protocol):
    """The hot operations, each as one statement: no transaction, no second round trip."""

    def insert_ready(self, jobs: Sequence[NewJob]) -> Statement: ...
    def insert_and_notify(self, job: NewJob) -> Statement: ...
    def insert_scheduled(self, jobs: Sequence[NewJob]) -> Statement: ...
    def insert_blocked(self, jobs: Sequence[NewJob]) -> Statement: ...
    def find_blocked(self, wants: Mapping[str, int]) -> Statement: ...
    def grant(self, grants: Sequence[Grant]) -> Statement: ...
    def claim(self, *wanted: ClaimRequest) -> Statement: ...
    def claim_from_all(self, *wanted: ClaimRequest) -> Statement: ...
    def end_claims(
        self, outcomes: Sequence[Outcome], *, worker_id: str, preserve: bool, by_owner: bool
    ) -> Statement: ...


class Dialect:
    """One server's words. The defaults are MySQL's and MariaDB's."""

    name = ""
    #: The one-statement forms, where the server has them.
    single_statements: SingleStatements | None = None
    #: Whether the server can notify listeners.
    can_notify = False
    mark = "?"
    #: The server's time as an expression, in UTC.
    now = ""
    #: How a read takes the rows it finds: waiting for others, or leaving out what others hold.
    take = " FOR UPDATE"
    take_free = " FOR UPDATE SKIP LOCKED"
    #: Whether such a read, in a transaction of the caller's, may lock where nothing is.
    locks_gaps = False
    #: How an insert leaves out what is there already: the words before and after it.
    insert_missing = "INSERT IGNORE"
    or_nothing = ""
    #: The tables of the polls, with the index named where the optimizer needs telling.
    ready_by_queue = "steady_queue_readyexecution r"
    ready_all = "steady_queue_readyexecution r"
    blocked_by_key = "steady_queue_blockedexecution"
    scheduled_due = "steady_queue_scheduledexecution"
    #: The next keys of blocked jobs after a bound one, in order and at most a bound number of them, by steps too.
    blocked_keys = (
        "WITH RECURSIVE found(name, place) AS"
        " (SELECT min(concurrency_key), 1 FROM steady_queue_blockedexecution WHERE concurrency_key > ? UNION ALL"
        " SELECT (SELECT min(b.concurrency_key) FROM steady_queue_blockedexecution b"
        " WHERE b.concurrency_key > found.name), found.place + 1"
        " FROM found WHERE found.name IS NOT NULL AND found.place < ?) SELECT name FROM found WHERE name IS NOT NULL"
    )
    #: A job's errors and one more, which is bound.
    errors_and = "CONCAT_WS(CHAR(10 USING utf8mb4), errors, ?)"
    #: The function that returns the lower of two numbers.
    least = "LEAST"
    #: The server's time as many microseconds ago as a bound number says: the same text for every number.
    given_ago = ""
    #: Asks for the server's version.
    server_version = "SELECT version()"
    #: Asks whether the database has the table of a bound name.
    has_table = "SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name = ?"
    #: Asks for table, name, character set and collation of the queue's text columns, where they may differ.
    text_columns = ""
    #: Asks for a number that changes with other connections' writes, where there is one.
    change_marker = ""

    def queue_names(self) -> Flow[list[str]]:
        """The names of the queues that have ready jobs, in order, by steps down the index."""
        rows = yield self.say(f"{QUEUE_NAMES} SELECT name FROM names WHERE name IS NOT NULL", returns=".")
        return [row[0] for row in rows]

    def waiting_queues(self) -> Flow[list[Row]]:
        """The queues that are not paused, with each lane that they have ready jobs for; a NULL when any is paused."""
        raise NotImplementedError

    def lock_keys(self, lock_ids: Sequence[int], wait_seconds: int | None = None) -> Flow[None]:
        """Hold these lock ids, given ascending, until the transaction ends; fail when one is not free in time."""
        raise NotImplementedError

    def first_blocked(self, wants: Mapping[str, int]) -> Flow[list[tuple[str, UUID]]]:
        """The first blocked jobs of each key, as many as are wanted, in their order; without those that others hold."""
        found: list[tuple[str, UUID]] = []
        for key, count in wants.items():
            rows = yield self.say(
                f"SELECT job_id FROM {self.blocked_by_key} WHERE concurrency_key = ?"
                f" ORDER BY priority DESC, job_id LIMIT ?{self.take_free}",
                key,
                count,
                returns="u",
            )
            found.extend((key, row[0]) for row in rows)
        return found

    def ago(self, seconds: float) -> str:
        """The server's time so many seconds ago, as an expression; at most some centuries, which all servers know."""
        return self.exactly_ago(min(seconds, MAX_AGO_SECONDS))

    def exactly_ago(self, seconds: float) -> str:
        raise NotImplementedError

    def microseconds_ago(self, column: str) -> str:
        """The server's time as many microseconds ago as the column has, at most some centuries, as an expression."""
        return self.given_ago.replace("?", f"{self.least}({column}, {round(MAX_AGO_SECONDS * 1_000_000)})")

    def try_maintenance(self) -> Flow[bool]:
        """Be the only one to maintain until the transaction ends; False when somebody else is."""
        raise NotImplementedError

    def update_attempts(self, attempts: Sequence[Attempt], worker_id: str, by_owner: bool) -> Flow[None]:
        """Write each ended attempt into its job, while its claimed row still stands."""
        raise NotImplementedError

    def say(self, text: str, *params: Any, returns: str = "") -> Statement:
        """A portable statement in this server's style; a list among `params` belongs to a `?*`."""
        sizes = tuple(len(param) for param in params if isinstance(param, (list, tuple)))
        flat: list[Any] = []
        for param in params:
            if isinstance(param, (list, tuple)):
                flat.extend(param)
            else:
                flat.append(param)
        return Statement(spread(text, sizes, self.mark), flat, returns)

    def say_each(self, text: str, rows: Sequence[Sequence[Any]]) -> Statement:
        """A portable statement to be run once for each row of parameters."""
        return Statement(spread(text, (), self.mark), rows, many=True)

    def unless_there(self, text: str) -> str:
        """An insert that leaves alone what has the same unique values, and waits for whoever is just writing it."""
        return f"{text} ON CONFLICT DO NOTHING"

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
        """Rows from a driver, with the columns named in `returns` restored to their types."""
        places = [(at, _RESTORE[letter]) for at, letter in enumerate(statement.returns) if letter in _RESTORE]
        if not places:
            return list(rows)
        restored: list[Row] = []
        try:
            for row in rows:
                values = list(row)
                for at, restore in places:
                    if values[at] is not None:
                        values[at] = restore(values[at])
                restored.append(values)
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            # SQLite stores any text in a column of another type, and MySQL zeros as a time.
            raise StoreDataError(f"a stored value cannot be read: {error}"[:MESSAGE_CHARACTERS]) from error
        return restored


@lru_cache(maxsize=1024)
def spread(text: str, sizes: tuple[int, ...], mark: str) -> str:
    """`text` with each `?` as `mark`, and each `?*` as a list of as many marks as its value has items."""
    remaining = iter(sizes)

    def fill(found: re.Match[str]) -> str:
        return f"({', '.join([mark] * next(remaining))})" if found[0] == "?*" else mark

    return _PLACEHOLDER.sub(fill, text)


def _restore_uuid(value: str | UUID) -> UUID:
    return value if isinstance(value, UUID) else uuid_of(int(value.replace("-", ""), 16))


def _restore_time(value: str | datetime) -> datetime:
    if isinstance(value, str):
        return _parsed(value)
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _restore_moment(value: Any) -> Any:
    """An instant; what a person has written, and is none, as it is."""
    try:
        return _restore_time(value)
    except (ValueError, TypeError, AttributeError):
        return value


@lru_cache(maxsize=64)  # the rows of a batch have their times in common
def _parsed(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_RESTORE: dict[str, Callable[[Any], Any]] = {
    "u": _restore_uuid,
    "t": _restore_time,
    "m": _restore_moment,
    "i": int,
}
