"""The progress of an answer: its row has the text so far, its task the state."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from steady_queue.jobs.compat import TaskResultStatus
from talk.models import Answer
from talk.tasks import write_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

POLL_SECONDS = 0.1
#: With any other status, the task is writing, or has just finished: then the row is complete soon.
STATES = {TaskResultStatus.READY: "waiting", TaskResultStatus.FAILED: "failed"}


@dataclass(frozen=True)
class Progress:
    """An answer at one moment: waiting, writing, done or failed."""

    state: str
    prompt: str
    text: str = ""
    tokens: int = 0

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "failed")


async def progress_of(answer_id: UUID) -> Progress:
    """Raises `TaskResultDoesNotExist` if there is no such answer."""
    answer = await Answer.objects.filter(pk=answer_id).afirst()
    if answer is not None and answer.is_complete:
        return Progress("done", answer.prompt, answer.text, answer.tokens)
    result = await write_answer.aget_result(str(answer_id))
    answer = answer or Answer(prompt=result.args[0])
    return Progress(STATES.get(result.status, "writing"), answer.prompt, answer.text, answer.tokens)


async def event_stream(answer_id: UUID) -> AsyncIterator[str]:
    """Server-Sent Events: one event for each change of the answer, until it is done or failed.

    An event has the complete text, so that a browser that reconnects has missed nothing.
    """
    sent = None
    while sent is None or not sent.is_over:
        progress = await progress_of(answer_id)
        if progress != sent:
            sent = progress
            yield f"data: {json.dumps(asdict(progress))}\n\n"
        else:
            await asyncio.sleep(POLL_SECONDS)
