"""The concurrency limits that are in use: their keys, who holds their slots, and how many tasks wait."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from steady_queue.dashboard.page import PageAdmin
from steady_queue.monitoring.limit_list import PAGE_SIZE, read_limits

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


class LimitPage(PageAdmin):
    title = "Limits"

    def show_list(self, request: HttpRequest) -> HttpResponse:
        after = request.GET.get("after", "").replace("\x00", "")
        limits = read_limits(after)
        url = self.url_of("limit_changelist")
        next_url = f"{url}?{urlencode({'after': limits[-1].key})}" if len(limits) == PAGE_SIZE else ""
        return self.render(
            request, "limits.html", self.title, limits=limits, after=after, first_url=url, next_url=next_url
        )
