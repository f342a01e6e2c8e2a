"""The overview: everything at a glance.

Failures are seen until the time of the page on which the user last pressed "Mark failures as seen". That time is kept
in the user's session: a GET request changes nothing, neither the queue nor the session, so the page can refresh by
itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages

from steady_queue.dashboard.chart_period import PERIODS, read_period, read_points
from steady_queue.dashboard.page import PageAdmin
from steady_queue.monitoring.json_values import overview_as_json
from steady_queue.monitoring.overview import read_overview
from steady_queue.monitoring.states import level_of
from steady_queue.monitoring.times import parse_past_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from steady_queue.monitoring.counts import CappedCount
    from steady_queue.monitoring.states import JobState

#: Until when failures are marked as seen, in the session.
SEEN_AT = "steady_queue.seen_at"


class OverviewPage(PageAdmin):
    title = "Overview"
    views = (("json/", "json", "show_json"),)
    changes = (("seen/", "seen", "mark_as_seen"),)

    def show_list(self, request: HttpRequest) -> HttpResponse:
        seen_at = read_seen_at(request)
        overview = read_overview(seen_at)
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
            seen_at=seen_at,
            shown_at=overview.now.isoformat(),
            seen_url=self.url_of("overview_seen"),
            json_url=self.url_of("overview_json"),
        )

    def show_json(self, request: HttpRequest) -> HttpResponse:
        """The overview for other programs."""
        return self.render_json(lambda: overview_as_json(read_overview(read_seen_at(request))))

    def mark_as_seen(self, request: HttpRequest) -> HttpResponse:
        """Remember that the user has seen the failures until the time of the page with the button."""
        request.session[SEEN_AT] = parse_past_time(request.POST.get("seen_at")).isoformat()
        return self.redirect_with(
            request,
            "The failures that were shown are marked as seen.",
            self.url_of("overview_changelist"),
            messages.SUCCESS,
        )


def read_seen_at(request: HttpRequest) -> datetime | None:
    """Until when the user has marked failures as seen."""
    return parse_time(request.session.get(SEEN_AT))


def _list_states(states: Mapping[JobState, CappedCount]) -> list[dict[str, object]]:
    return [
        {"name": str(state), "count": count, "level": level_of(state) if count.number else "quiet"}
        for state, count in states.items()
    ]
