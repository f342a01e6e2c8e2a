"""The overview: everything at a glance.

"Failures since you last looked" begin when the user last pressed "Mark failures as seen". That time is kept in the
user's session: a GET request changes nothing, neither the queue nor the session, so the page can refresh by itself.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.contrib import messages
from django.utils import timezone

from steady_queue.dashboard.page import PageAdmin
from steady_queue.monitoring.json_values import overview_as_json
from steady_queue.monitoring.overview import read_overview
from steady_queue.monitoring.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest, HttpResponse

    from steady_queue.monitoring.counts import CappedCount

#: The time of the last look, in the session.
LOOKED_AT = "steady_queue.looked_at"
#: States whose tasks need attention, by how much.
_LEVELS = {JobState.FAILED: "error", JobState.LOST: "error", JobState.EXHAUSTED: "error", JobState.LATE: "warning"}


class OverviewPage(PageAdmin):
    title = "Overview"
    views = (("json/", "json", "show_json"),)
    changes = (("seen/", "seen", "mark_as_seen"),)

    def show_list(self, request: HttpRequest) -> HttpResponse:
        looked_at = read_looked_at(request)
        overview = read_overview(looked_at)
        return self.render(
            request,
            "overview.html",
            self.title,
            overview=overview,
            states=_list_states(overview.states),
            looked_at=looked_at,
            seen_url=self.url_of("overview_seen"),
            json_url=self.url_of("overview_json"),
        )

    def show_json(self, request: HttpRequest) -> HttpResponse:
        """The overview for other programs."""
        return self.render_json(lambda: overview_as_json(read_overview(read_looked_at(request))))

    def mark_as_seen(self, request: HttpRequest) -> HttpResponse:
        """Remember that the user has seen the failures until now."""
        request.session[LOOKED_AT] = datetime.now(UTC).isoformat()
        return self.redirect_with(
            request, "Failures until now are marked as seen.", self.url_of("overview_changelist"), messages.SUCCESS
        )


def read_looked_at(request: HttpRequest) -> datetime | None:
    """When the user last marked failures as seen."""
    try:
        looked_at = datetime.fromisoformat(request.session.get(LOOKED_AT, ""))
    except (TypeError, ValueError):
        return None
    return looked_at if timezone.is_aware(looked_at) else None


def _list_states(states: Mapping[JobState, CappedCount]) -> list[dict[str, object]]:
    return [
        {"name": str(state), "count": count, "level": _LEVELS.get(state, "") if count.number else ""}
        for state, count in states.items()
    ]
