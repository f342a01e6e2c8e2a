"""The calls of hooks, receivers and subscribers in real processes, appended to a file that outlives them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from steady_queue import events, hooks, signals

if TYPE_CHECKING:
    from pathlib import Path

SIGNALS = ("process_started", "process_stopped", "process_restarted")
#: Setup of a manage.py that records all calls.
KEEP_CALL_LOG = "from tests.hooks import call_log\ncall_log.keep({path!r})"


def note(path: str, what: str, **facts: Any) -> None:
    """One line in one write: processes do not disturb each other."""
    line = json.dumps({"what": what, "by": os.getpid(), **facts}, default=str) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def keep(path: str) -> None:
    for kind, moments in hooks.by_kind.items():
        for name in ("on_start", "on_stop", "on_exit"):

            def hook(actor: hooks.Actor, what: str = f"{kind}.{name}") -> None:
                note(path, what, pid=actor.pid, name=actor.name, queues=actor.queues, kind=actor.kind)

            getattr(moments, name)(hook)

    def receive(signal: Any, sender: type, what: str, **fields: Any) -> None:
        note(path, what, sender=sender.__name__, **fields)

    for name in SIGNALS:

        def receiver(what: str = name, **fields: Any) -> None:
            receive(what=what, **fields)

        getattr(signals, name).connect(receiver, weak=False)

    @events.subscribe
    def receive_event(event: events.Event) -> None:
        if not isinstance(event, events.Polled):
            note(path, type(event).__name__, **{name: value for name, value in vars(event).items() if name != "what"})


def read(path: Path, what: str | None = None) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines() if path.exists() else []
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [one for one in found if what is None or one["what"] == what]
