"""Which rows of a window match the filters that no index has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from django.db.models.functions import Left, Length

from steady_queue.db.aliases import queue_alias
from steady_queue.models import Job
from steady_queue.monitoring.argument_text import load_redacted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.monitoring.job_search import JobSearch
    from steady_queue.monitoring.listings import Listing
    from steady_queue.monitoring.sections import Key, Section

#: Characters of the arguments in which a text is searched for.
SEARCHED_CHARACTERS = 20_000


def find_matching(search: JobSearch, listing: Listing, section: Section, keys: Sequence[Key]) -> set[UUID] | None:
    """Return the ids of the rows that match; None if all do."""
    conditions = [condition for condition in (listing.job_filter, section.job_filter) if condition is not None]
    if section.is_match is None and not conditions:
        return None
    matches = section.is_match or (lambda _: True)
    ids = [section.id_of(key) for key in keys if matches(key)]
    if not conditions or not ids:
        return set(ids)
    jobs = Job.objects.using(queue_alias()).filter(*conditions, id__in=ids)
    if not search.text:
        return set(jobs.values_list("id", flat=True))
    some_arguments = Left("arguments", SEARCHED_CHARACTERS)
    found = jobs.values_list("id", "task_path", some_arguments, Length("arguments"))
    return {id_ for id_, path, text, length in found if _contains(search.text, text, length, path)}


def _contains(wanted: str, stored: str, length: int, task_path: str) -> bool:
    """Whether the arguments contain a text. Redacted values do not: a search must not show what the page hides."""
    try:
        args, kwargs = load_redacted(stored, length, task_path)
    except ValueError:
        return False
    shown = json.dumps([args, kwargs], ensure_ascii=False, separators=(",", ":"))
    return json.dumps(wanted, ensure_ascii=False)[1:-1].casefold() in shown.casefold()
