"""The state of an action on many tasks between its requests: what was wanted, how far it came, and its outcomes.

The page that a request returns carries the state, signed for the user, to the next request. So the server remembers
nothing, an interrupted action can be continued from its page, and the totals cannot be forged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.core import signing

from steady_queue.dashboard.jobs import confirmed_ids
from steady_queue.dashboard.jobs.changes import JobOutcome, OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

#: Outcomes that a page shows; the totals count all.
SHOWN_ROWS = 200
#: For how long an interrupted action can be continued.
MAX_AGE_SECONDS = 24 * 3600
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
    rows: Sequence[JobOutcome] = ()

    def add(self, outcomes: Sequence[JobOutcome], cursor: str | None, searched: int = 0) -> BatchState:
        """Return the state after one more batch."""
        totals = Counter(self.totals)
        totals.update(outcome.kind.value for outcome in outcomes)
        rows = (*self.rows, *outcomes)
        return replace(self, totals=dict(totals), rows=_choose(rows), cursor=cursor, searched=self.searched + searched)

    @property
    def handled(self) -> int:
        return sum(self.totals.values())

    def sign(self, user_id: object) -> str:
        """Return the state as text for the form of the next request of this user."""
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
        return signing.dumps(value, salt=f"{_SALT}.{user_id}", compress=True)

    @classmethod
    def load(cls, text: str, user_id: object) -> BatchState | None:
        """Return the state that `sign` returned for the same user; None if it is something else, or too old."""
        try:
            value: dict[str, Any] = signing.loads(text, salt=f"{_SALT}.{user_id}", max_age=MAX_AGE_SECONDS)
        except signing.BadSignature:
            return None
        rows = [JobOutcome(id_, OutcomeKind(kind), text) for id_, kind, text in value.pop("rows")]
        as_of = datetime.fromisoformat(value["as_of"])
        confirmed = confirmed_ids.decode(value["confirmed"])
        return cls(**{**value, "as_of": as_of, "confirmed": confirmed, "rows": rows})


def _choose(rows: Sequence[JobOutcome]) -> tuple[JobOutcome, ...]:
    """Return the rows to be shown: those that were not changed first, because they say why."""
    if len(rows) <= SHOWN_ROWS:
        return tuple(rows)
    unchanged = [row for row in rows if row.kind in (OutcomeKind.REFUSED, OutcomeKind.STALE)]
    others = [row for row in rows if row.kind not in (OutcomeKind.REFUSED, OutcomeKind.STALE)]
    return (*unchanged, *others)[:SHOWN_ROWS]
