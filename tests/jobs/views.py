"""Views that enqueue, sync and async."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpResponse
from django.urls import path

from steady_queue import aenqueue_all, enqueue_all
from tests.shop import tasks

if TYPE_CHECKING:
    from django.http import HttpRequest


def sync_view(request: HttpRequest) -> HttpResponse:
    result = tasks.add.enqueue(1)
    enqueue_all([tasks.charge.bind("ada"), tasks.greet.bind("Ada")])
    if "fail" in request.GET:
        raise LookupError
    return HttpResponse(result.id)


async def async_view(request: HttpRequest) -> HttpResponse:
    result = await tasks.add.aenqueue(1)
    await aenqueue_all([tasks.charge.bind("ada"), tasks.greet.bind("Ada")])
    await result.arefresh()
    if "fail" in request.GET:
        raise LookupError
    return HttpResponse(result.id)


urlpatterns = [path("sync", sync_view), path("async", async_view)]
