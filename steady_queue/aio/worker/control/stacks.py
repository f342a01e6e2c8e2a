"""The current stack of a running job as text: of its thread, or of the coroutines that its asyncio task awaits.

The frames of the runtime, which are the same for every job, are left out.
"""

from __future__ import annotations

import sys
import traceback
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steady_queue.aio import worker
from steady_queue.events.tracebacks import cut

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from types import FrameType

    from steady_queue.aio.worker.running import Running

STACK_LENGTH = 10_000
#: The most frames that are read: a task may recurse without end.
MAX_FRAMES = 200
#: The directory of the modules that run tasks.
_RUNTIME = str(Path(worker.__file__).parent)
#: The attributes with the frame of a coroutine, a generator or an async generator, and with what it awaits.
_FRAMES = ("cr_frame", "gi_frame", "ag_frame")
_AWAITED = ("cr_await", "gi_yieldfrom", "ag_await")


def stack_of(running: Running, *, max_frames: int = MAX_FRAMES, length: int = STACK_LENGTH) -> str:
    """Where a job is now, and its ORM thread if it waits for one; empty if it waits for a thread."""
    if running.task is None:
        return stack_of_thread(running.thread_id, max_frames, length)
    stack = stack_of_task(running.task, max_frames, length)
    if running.session is not None and running.session.calls and (thread_id := running.session.thread.ident):
        orm_stack = stack_of_thread(thread_id, max_frames, length)
        return f"{stack}It waits for its ORM thread, which is here:\n{orm_stack}"
    return stack


def stack_of_thread(thread_id: int, max_frames: int = MAX_FRAMES, length: int = STACK_LENGTH) -> str:
    """Where a thread is now; empty if it has ended."""
    frame = sys._current_frames().get(thread_id)
    frames = [] if frame is None else list(reversed(list(islice(traceback.walk_stack(frame), max_frames))))
    return _format(frames, length)


def stack_of_task(task: asyncio.Task[Any], max_frames: int = MAX_FRAMES, length: int = STACK_LENGTH) -> str:
    """What a suspended asyncio task awaits. `Task.get_stack` has only the outermost coroutine."""
    return _format(list(islice(_awaited_frames(task.get_coro()), max_frames)), length)


def _awaited_frames(awaited: object) -> Iterator[tuple[FrameType, int]]:
    while (frame := _first(awaited, _FRAMES)) is not None:
        yield frame, frame.f_lineno
        awaited = _first(awaited, _AWAITED)


def _first(value: object, names: tuple[str, ...]) -> Any:
    return next((found for name in names if (found := getattr(value, name, None)) is not None), None)


def _format(frames: list[tuple[FrameType, int]], length: int) -> str:
    try:
        summary = traceback.StackSummary.extract(iter(frames))
    except Exception:  # the loader of a module may raise anything when it is asked for its source
        return "  <the stack cannot be shown>\n"
    ours = [number for number, frame in enumerate(summary) if frame.filename.startswith(_RUNTIME)]
    # If the task's own code is not on the stack, the frames of the runtime show what it waits for.
    own = summary[ours[-1] + 1 :] if ours else summary
    return cut("".join(traceback.format_list(own or summary)), length)
