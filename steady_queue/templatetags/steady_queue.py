"""The template tags of the dashboard: `{% load steady_queue %}`. They show text that the queue only stores."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django import template
from django.utils.html import format_html

from steady_queue.monitoring import text
from steady_queue.monitoring.states import level_of
from steady_queue.monitoring.times import show_local

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

register = template.Library()

_TIME = '<time datetime="{}" title="{}">{}</time>'


@register.filter
def shown(value: object, limit: int = text.SHOWN_CHARACTERS) -> str:
    """A text of any length and content, on several lines."""
    return "" if value is None else text.show(value, limit)


@register.filter
def line(value: object, limit: int = text.LINE_CHARACTERS) -> str:
    """A text of any length and content, on one line."""
    return "" if value is None else text.show_line(value, limit)


@register.filter
def seconds(value: float | None) -> str:
    """A duration."""
    return text.show_seconds(value)


@register.filter
def level(state: str) -> str:
    """How much attention a state needs, as the end of a class of the style sheet."""
    return level_of(state)


@register.filter
def memory(size_bytes: int | None) -> str:
    """An amount of memory."""
    return text.show_memory(size_bytes)


@register.filter
def plain_number(value: Any) -> str:
    """A number for URLs and attributes, the same in every locale."""
    return "" if value is None else str(value)


@register.simple_tag
def moment(at: datetime | None) -> SafeString | str:
    """A time in the time zone of the project; a tooltip says how long ago it was."""
    return "" if at is None else format_html(_TIME, _iso(at), _age(at), show_local(at))


@register.simple_tag
def age(at: datetime | None) -> SafeString | str:
    """How long ago a time was, or how far it is in the future; a tooltip has the time itself."""
    return "" if at is None else format_html(_TIME, _iso(at), show_local(at), _age(at))


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _age(at: datetime) -> str:
    return text.show_age((datetime.now(at.tzinfo) - at).total_seconds())
