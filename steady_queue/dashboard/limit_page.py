"""The concurrency limits that are in use: their keys, who holds their slots, and how many tasks wait."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from steady_queue.dashboard.page import PageAdmin
from steady_queue.dashboard.refusals import check_name
from steady_queue.monitoring.limit_list import PAGE_SIZE, read_limit, read_limits
from steady_queue.store.names import KEY_LENGTH

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


class LimitPage(PageAdmin):
    title = "Limits"

    def show_list(self, request: HttpRequest) -> HttpResponse:
        key, after = (check_name("key", request.GET.get(name, ""), KEY_LENGTH) for name in ("key", "after"))
        limits = [limit for limit in [read_limit(key)] if limit] if key else read_limits(after)
        url = self.url_of("limit_changelist")
        has_next = not key and len(limits) == PAGE_SIZE
        return self.render(
            request,
            "limits.html",
            self.title,
            limits=limits,
            key=key,
            after=after,
            first_url=url,
            next_url=f"{url}?{urlencode({'after': limits[-1].key})}" if has_next else "",
        )
