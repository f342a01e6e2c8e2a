"""An action on many tasks in several requests. Its state: what was wanted, how far it came, and its outcomes.

The page that a request returns carries the state, signed for the user, to the next request. So the server remembers
nothing, an interrupted action can be continued from its page, and the totals cannot be forged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.core import signing

from steady_queue.actions.outcomes import ActionOutcome, OutcomeKind, apply_to
from steady_queue.dashboard.jobs import confirmed_ids
from steady_queue.monitoring.jobs.confirmed import Confirmed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from steady_queue.dashboard.jobs.changes import JobChange
    from steady_queue.monitoring.jobs.search import JobSearch

#: Outcomes that a page shows; the totals count all.
SHOWN_ROWS = 200
#: For how long an interrupted action can be continued.
MAX_AGE_SECONDS = 24 * 3600
#: The purpose of actions on lists of tasks.
FOR_LISTS = "lists"
_SALT = "steady_queue.job_batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """An action on all tasks that match a search."""

    change: str
    #: The query of the list.
    query: Mapping[str, str]
    reason: str = ""
    #: Tasks that enter the list later are left alone.
    as_of: datetime
    #: No other tasks are changed; None if there were too many to name them.
    confirmed: frozenset[UUID] | None = None
    cursor: str | None = None
    searched: int = 0
    totals: Mapping[str, int] = field(default_factory=dict)
    rows: Sequence[ActionOutcome] = ()

    def add(self, outcomes: Sequence[ActionOutcome], cursor: str | None, searched: int = 0) -> BatchState:
        """Return the state after one more batch."""
        totals = Counter(self.totals)
        totals.update(outcome.kind.value for outcome in outcomes)
        rows = (*self.rows, *outcomes)
        return replace(self, totals=dict(totals), rows=_choose(rows), cursor=cursor, searched=self.searched + searched)

    @property
    def handled(self) -> int:
        return sum(self.totals.values())

    def change_next(self, change: JobChange, search: JobSearch, *, by: str, size: int) -> tuple[BatchState, int]:
        """Change the next tasks that were confirmed; returns the state after that, and how many were changed."""
        found = Confirmed(search, self.as_of, self.confirmed).find_next(self.cursor, size)
        outcomes = apply_to(found.ids, change.name, by=by, reason=self.reason)
        done = sum(outcome.is_done for outcome in outcomes)
        return self.add(outcomes, found.next_cursor, found.searched), done

    def describe(self) -> dict[str, Any]:
        """Return what the pages show of it."""
        return {"handled": self.handled, "totals": [(kind, self.totals.get(kind.value, 0)) for kind in OutcomeKind]}

    def sign(self, user_id: object, purpose: str = FOR_LISTS) -> str:
        """Return the state as text for the form of the next request of this user, of the action with this purpose."""
        value = {
            "change": self.change,
            "query": dict(self.query),
            "reason": self.reason,
            "as_of": self.as_of.isoformat(),
            "confirmed": None if self.confirmed is None else confirmed_ids.encode(self.confirmed),
            "cursor": self.cursor,
            "searched": self.searched,
            "totals": dict(self.totals),
            "rows": [list(row) for row in self.rows],
        }
        return signing.dumps(value, salt=_salt(user_id, purpose), compress=True)

    @classmethod
    def load(cls, text: str, user_id: object, purpose: str = FOR_LISTS) -> BatchState | None:
        """Return what `sign` returned for the same user and purpose; None if it is something else, or too old."""
        try:
            value: dict[str, Any] = signing.loads(text, salt=_salt(user_id, purpose), max_age=MAX_AGE_SECONDS)
        except signing.BadSignature:
            return None
        rows = [ActionOutcome(id_, OutcomeKind(kind), text) for id_, kind, text in value.pop("rows")]
        as_of = datetime.fromisoformat(value["as_of"])
        confirmed = confirmed_ids.decode(value["confirmed"])
        return cls(**{**value, "as_of": as_of, "confirmed": confirmed, "rows": rows})


def _salt(user_id: object, purpose: str) -> str:
    return f"{_SALT}.{purpose}.{user_id}"


def _choose(rows: Sequence[ActionOutcome]) -> tuple[ActionOutcome, ...]:
    """Return the rows to be shown: those that were not changed first, because they say why."""
    if len(rows) <= SHOWN_ROWS:
        return tuple(rows)
    unchanged = [row for row in rows if row.kind in (OutcomeKind.REFUSED, OutcomeKind.STALE)]
    others = [row for row in rows if row.kind not in (OutcomeKind.REFUSED, OutcomeKind.STALE)]
    return (*unchanged, *others)[:SHOWN_ROWS]
