"""Links between the pages of the dashboard: `{% load steady_queue_links %}`.

Each tag returns a URL. It is empty if the user may not see that page or the project's admin site does not have it;
templates then show the text without a link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import template
from django.urls import NoReverseMatch, reverse

from steady_queue.dashboard import url_parts

if TYPE_CHECKING:
    from django.template import RequestContext

    from steady_queue.monitoring.attention import Target

register = template.Library()

#: The pages whose objects have pages of their own, and what identifies an object in the query of a finding.
_IDS = {"queue": "name", "process": "id", "recurringtask": "key", "job": "id"}


@register.simple_tag(takes_context=True)
def page_url(context: RequestContext, page: str, **query: Any) -> str:
    """The URL of a page, such as `{% page_url "job" state="failed" queue=row.name %}`. Empty values are left out."""
    url = _reverse(context, page, "changelist")
    chosen = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return f"{url}?{urlencode(chosen)}" if url and chosen else url


@register.simple_tag(takes_context=True)
def object_url(context: RequestContext, page: str, object_id: object) -> str:
    """The URL of a task, process or recurring task, such as `{% object_url "job" row.id %}`."""
    return _reverse(context, page, "change", url_parts.encode(str(object_id)))


@register.simple_tag(takes_context=True)
def action_url(context: RequestContext, page: str, object_id: object, action: str) -> str:
    """The URL that an action is posted to, such as `{% action_url "queue" row.name "pause" %}`."""
    return _reverse(context, page, action, url_parts.encode(str(object_id)))


@register.simple_tag(takes_context=True)
def target_url(context: RequestContext, target: Target) -> str:
    """The URL of what a finding is about."""
    object_id = target.query.get(_IDS.get(target.page, ""))
    if object_id is not None:
        return object_url(context, target.page, object_id)
    return page_url(context, target.page, **target.query)


def _reverse(context: RequestContext, page: str, view: str, *args: str) -> str:
    request = context.request  # the project may not have the context processor that adds it
    user: Any = request.user
    if not user.has_perm(f"steady_queue.view_{page}"):
        return ""
    try:
        return reverse(f"admin:steady_queue_{page}_{view}", args=args, current_app=request.current_app)
    except NoReverseMatch:
        return ""
