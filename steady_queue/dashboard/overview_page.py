"""The overview: everything at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.dashboard.page import PageAdmin

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


class OverviewPage(PageAdmin):
    title = "Overview"

    def show_list(self, request: HttpRequest) -> HttpResponse:
        return self.render(request, "overview.html", self.title)
