"""How far an answer is: its row tells what is written, its task whether there will be more."""

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

LOOK_EVERY_SECONDS = 0.1
#: Any other task is writing, or has just ended: then the row will tell.
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
    """Raises `TaskResultDoesNotExist` if nobody has asked for this answer."""
    answer = await Answer.objects.filter(pk=answer_id).afirst()
    if answer is not None and answer.is_complete:
        return Progress("done", answer.prompt, answer.text, answer.tokens)
    result = await write_answer.aget_result(str(answer_id))
    answer = answer or Answer(prompt=result.args[0])
    return Progress(STATES.get(result.status, "writing"), answer.prompt, answer.text, answer.tokens)


async def event_stream(answer_id: UUID) -> AsyncIterator[str]:
    """Server-Sent Events: each change of the answer, until it is over.

    An event has the whole text, so that a browser that connects again needs none that it has missed.
    """
    told = None
    while told is None or not told.is_over:
        progress = await progress_of(answer_id)
        if progress != told:
            told = progress
            yield f"data: {json.dumps(asdict(progress))}\n\n"
        else:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
