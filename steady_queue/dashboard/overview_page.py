"""The overview: everything at a glance.

"Failures since you last looked" begin with the page on which the user last pressed "Mark failures as seen". Its time is
kept in the user's session: a GET request changes nothing, neither the queue nor the session, so the page can refresh by
itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages

from steady_queue.dashboard.chart_period import PERIODS, read_period, read_points
from steady_queue.dashboard.page import PageAdmin
from steady_queue.monitoring.json_values import overview_as_json
from steady_queue.monitoring.overview import read_overview
from steady_queue.monitoring.states import JobState
from steady_queue.monitoring.times import parse_past_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

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
        period = read_period(request)
        return self.render(
            request,
            "overview.html",
            self.title,
            overview=overview,
            period=period,
            periods=PERIODS,
            points=read_points(period, overview.hour, overview.now),
            states=_list_states(overview.states),
            looked_at=looked_at,
            seen_at=overview.now.isoformat(),
            seen_url=self.url_of("overview_seen"),
            json_url=self.url_of("overview_json"),
        )

    def show_json(self, request: HttpRequest) -> HttpResponse:
        """The overview for other programs."""
        return self.render_json(lambda: overview_as_json(read_overview(read_looked_at(request))))

    def mark_as_seen(self, request: HttpRequest) -> HttpResponse:
        """Remember that the user has seen the failures until the time of the page with the button."""
        request.session[LOOKED_AT] = parse_past_time(request.POST.get("seen_at")).isoformat()
        return self.redirect_with(
            request,
            "The failures that were shown are marked as seen.",
            self.url_of("overview_changelist"),
            messages.SUCCESS,
        )


def read_looked_at(request: HttpRequest) -> datetime | None:
    """When the user last marked failures as seen."""
    return parse_time(request.session.get(LOOKED_AT))


def _list_states(states: Mapping[JobState, CappedCount]) -> list[dict[str, object]]:
    return [
        {"name": str(state), "count": count, "level": _LEVELS.get(state, "") if count.number else ""}
        for state, count in states.items()
    ]
