"""The task of the chat: reads the provider's stream and stores its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue import task
from talk.models import Answer
from talk.provider import stream

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskContext

#: The number of tokens that are stored with one statement. One statement for each token would load the database.
TOKENS_PER_SAVE = 5


@task(takes_context=True)
async def write_answer(context: TaskContext, prompt: str) -> int:
    """Async, and mostly waiting: hundreds share the event loop. If it runs again, it restarts the answer."""
    begun = {"prompt": prompt, "text": "", "tokens": 0}
    answer, _ = await Answer.objects.aupdate_or_create(pk=context.task_result.id, defaults=begun)
    async for token in stream(prompt):
        answer.text += token
        answer.tokens += 1
        if answer.tokens % TOKENS_PER_SAVE == 0:
            await answer.asave(update_fields=["text", "tokens"])
    answer.is_complete = True
    await answer.asave(update_fields=["text", "tokens", "is_complete"])
    return answer.tokens
