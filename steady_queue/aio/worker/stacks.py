"""The current stack of a running job as text: of its thread, or of the coroutines that its asyncio task awaits.

The frames of the runtime, which are the same for every job, are left out.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steady_queue.events.tracebacks import cut

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from types import FrameType

STACK_LENGTH = 10_000
#: The most frames that are read: a task may recurse without end.
MAX_FRAMES = 200
_RUNTIME = str(Path(__file__).parent)
#: The attributes with the frame of a coroutine, a generator or an async generator, and with what it awaits.
_FRAMES = ("cr_frame", "gi_frame", "ag_frame")
_AWAITED = ("cr_await", "gi_yieldfrom", "ag_await")


def stack_of_thread(thread_id: int) -> str:
    """Where a thread is now; empty if it has ended."""
    frame = sys._current_frames().get(thread_id)
    frames = [] if frame is None else list(reversed(list(traceback.walk_stack(frame))[:MAX_FRAMES]))
    return _format(frames)


def stack_of_task(task: asyncio.Task[Any]) -> str:
    """What a suspended asyncio task awaits. `Task.get_stack` has only the outermost coroutine."""
    return _format(list(_awaited_frames(task.get_coro()))[:MAX_FRAMES])


def _awaited_frames(awaited: object) -> Iterator[tuple[FrameType, int]]:
    while (frame := _first(awaited, _FRAMES)) is not None:
        yield frame, frame.f_lineno
        awaited = _first(awaited, _AWAITED)


def _first(value: object, names: tuple[str, ...]) -> Any:
    return next((found for name in names if (found := getattr(value, name, None)) is not None), None)


def _format(frames: list[tuple[FrameType, int]]) -> str:
    try:
        summary = traceback.StackSummary.extract(iter(frames))
    except Exception:  # the loader of a module may raise anything when it is asked for its source
        return "  <the stack cannot be shown>\n"
    ours = [number for number, frame in enumerate(summary) if frame.filename.startswith(_RUNTIME)]
    # If the task's own code is not on the stack, the frames of the runtime show what it waits for.
    own = summary[ours[-1] + 1 :] if ours else summary
    return cut("".join(traceback.format_list(own or summary)), STACK_LENGTH)
