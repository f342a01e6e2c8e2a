"""Hooks of a test, and what they were called with."""

from __future__ import annotations

from steady_queue import hooks

KINDS = ["worker", "dispatcher", "scheduler"]


def record_hook_calls(*names: str) -> list[tuple[str, hooks.Actor]]:
    """Register hooks at these moments for each kind; return the list to which their calls are appended."""
    calls: list[tuple[str, hooks.Actor]] = []
    for kind in KINDS:
        for name in names:
            moment = getattr(hooks.by_kind[kind], name)  # type: ignore[index]
            moment(lambda actor, what=moment.name: calls.append((what, actor)))
    return calls
