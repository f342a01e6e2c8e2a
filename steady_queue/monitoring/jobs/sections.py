"""Section: a table that is read in the order of one of its indexes, from a position on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db import connections
from django.db.models import BooleanField, Case, F, OuterRef, Q, Subquery, TextField, Value, When
from django.db.models.functions import Cast

from steady_queue.db.aliases import queue_alias
from steady_queue.models import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.models import Model, QuerySet

    #: The values of a section's columns, and of its additional columns, in one row.
    Key = tuple[Any, ...]

#: The bits of an id after its milliseconds.
_BITS_AFTER_TIME = 80


class Column(NamedTuple):
    """A column that a section is sorted by."""

    name: str
    is_descending: bool = False
    is_time: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A table in the order of an index. The last column is the id of the job."""

    model: type[Model]
    columns: tuple[Column, ...]
    where: Q = field(default_factory=Q)
    #: A condition for the jobs of this section, beside that of the list.
    job_filter: Q | None = None
    #: Columns that `is_match` needs.
    more: tuple[str, ...] = ()
    is_match: Callable[[Key], bool] | None = None

    def read(
        self, after: Key | None, limit: int, *, backwards: bool = False, condition: Q | None = None
    ) -> list[tuple[Key, bool]]:
        """Return the keys of the next rows after a position, which need not exist any more.

        With each key: whether the job of the row meets a condition.

        For each column there is a query of its own, whose condition is a range of the index: one query with `OR` would
        read the rows before the position again.
        """
        rows: list[Any] = []
        meets = Value(True) if condition is None else self._meets(condition)
        order = self._order(backwards)
        for range_ in self._ranges(after, backwards):
            found = self.rows().filter(range_).order_by(*order)
            rows += found.values_list(*map(_stored, self.columns), *self.more, meets)[: limit - len(rows)]
            if len(rows) == limit:
                break
        return [(row[:-1], bool(row[-1])) for row in rows]

    def read_paths(self, limit: int, condition: Q | None = None) -> list[tuple[Key, bool, str | None]]:
        """Return the keys of the first rows, with each whether its job meets a condition, and the path of its task.

        The path is None if the job was deleted just now.
        """
        meets = Value(True) if condition is None else self._meets(condition)
        rows = self.rows().order_by(*self._order())[:limit]
        found = rows.values_list(*map(_stored, self.columns), *self.more, meets, self._task_path())
        return [(row[:-2], bool(row[-2]), row[-1]) for row in found]

    def _order(self, backwards: bool = False) -> list[str]:
        return [f"{'-' if one.is_descending != backwards else ''}{one.name}" for one in self.columns]

    def _task_path(self) -> Any:
        if self.model is Job:
            return F("task_path")
        return Subquery(Job._default_manager.filter(id=OuterRef("job_id")).values("task_path")[:1])

    def _meets(self, condition: Q) -> Any:
        """Whether the job of a row meets a condition, as an expression.

        Not a condition of the query: the database might read very many rows to find enough that match. Not a join and
        not EXISTS either: PostgreSQL might read the whole table of jobs.
        """
        meets = Case(When(condition, then=Value(True)), default=Value(False), output_field=BooleanField())
        if self.model is Job:
            return meets
        jobs = Job._default_manager.filter(id=OuterRef("job_id"))
        return Subquery(jobs.annotate(meets=meets).values("meets")[:1])

    def rows(self) -> QuerySet[Any]:
        return self.model._default_manager.using(queue_alias()).filter(self.where)

    def id_of(self, key: Key) -> UUID:
        found = key[len(self.columns) - 1]
        return found if isinstance(found, UUID) else UUID(found)

    def _ranges(self, after: Key | None, backwards: bool) -> Iterator[Q]:
        if after is None:
            yield Q()
            return
        for last in reversed(range(len(self.columns))):
            equal = Q(**{one.name: _value(one, after[at]) for at, one in enumerate(self.columns[:last])})
            column = self.columns[last]
            comparison = "lt" if column.is_descending != backwards else "gt"
            yield equal & Q(**{f"{column.name}__{comparison}": _value(column, after[last])})


def _stored(column: Column) -> Any:
    # SQLite compares times as texts, of which there is more than one for the same time: a position has the stored one.
    return Cast(column.name, TextField()) if column.is_time and compares_texts() else column.name


def _value(column: Column, value: Any) -> Any:
    return Value(value, output_field=TextField()) if column.is_time and compares_texts() else value


def compares_texts() -> bool:
    return connections[queue_alias()].vendor == "sqlite"


def last_id_of(moment: datetime) -> UUID:
    """Return the last job id of a millisecond: ids are of version 7, which begin with the time."""
    return _id_of(moment, (1 << _BITS_AFTER_TIME) - 1)


def first_id_of(moment: datetime) -> UUID:
    return _id_of(moment, 0)


def _id_of(moment: datetime, rest: int) -> UUID:
    milliseconds = max(0, int((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1)))
    number = min(milliseconds, (1 << 48) - 1) << _BITS_AFTER_TIME | rest
    # The bits of the version and the variant, without which MariaDB sorts the id differently.
    number = number & ~(0xF << 76) | 0x7 << 76
    return UUID(int=number & ~(0b11 << 62) | 0b10 << 62)
