"""Which rows of a window match the filters that no index has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from django.db.models.functions import Left, Length

from steady_queue.db.aliases import queue_alias
from steady_queue.models import Job
from steady_queue.monitoring.jobs.argument_text import load_redacted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from django.db.models import Q

    from steady_queue.monitoring.jobs.listings import Listing
    from steady_queue.monitoring.jobs.search import JobSearch
    from steady_queue.monitoring.jobs.sections import Key, Section

#: Characters of the arguments in which a text is searched for.
SEARCHED_CHARACTERS = 20_000


def find_matching(
    search: JobSearch, listing: Listing, section: Section, rows: Sequence[tuple[Key, bool]]
) -> set[UUID] | None:
    """Return the ids of the rows that match; None if all do. Each key has with it whether its job meets the filters."""
    if section.is_match is None and condition_of(listing, section) is None:
        return None
    matches = section.is_match or (lambda _: True)
    ids = [section.id_of(key) for key, meets in rows if meets and matches(key)]
    if not search.text or not ids:
        return set(ids)
    some_arguments = Left("arguments", SEARCHED_CHARACTERS)
    jobs = Job.objects.using(queue_alias()).filter(id__in=ids)
    found = jobs.values_list("id", "task_path", some_arguments, Length("arguments"))
    return {id_ for id_, path, text, length in found if _contains(search.text, text, length, path)}


def condition_of(listing: Listing, section: Section) -> Q | None:
    """The condition for the jobs of a section; None if there is none."""
    if listing.job_filter is None or section.job_filter is None:
        return listing.job_filter or section.job_filter
    return listing.job_filter & section.job_filter


def _contains(wanted: str, stored: str, length: int, task_path: str) -> bool:
    """Whether the arguments contain a text. Redacted values do not: a search must not show what the page hides."""
    try:
        args, kwargs = load_redacted(stored, length, task_path)
    except ValueError:
        return False
    shown = json.dumps([args, kwargs], ensure_ascii=False, separators=(",", ":"))
    return json.dumps(wanted, ensure_ascii=False)[1:-1].casefold() in shown.casefold()
