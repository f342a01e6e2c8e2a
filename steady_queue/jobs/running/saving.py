"""What a running task saves with its job at once: its metadata, and a checkpoint for its next attempt.

The sync forms write on Django's connection, and so inside a transaction that the task has open on the queue's database.
The async forms write on a connection of the running loop, as `aenqueue` does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from steady_queue.db.transactions import arun_one, run_one
from steady_queue.errors import ClaimLost
from steady_queue.store.operations.task_data import save_task_data

if TYPE_CHECKING:
    from steady_queue.store.job import Claim

    Column = Literal["metadata", "saved"]

_ASYNC_FORMS = {
    "metadata": "instead of context.save_metadata(), use: await context.asave_metadata()",
    "saved": "instead of context.checkpoint(...), use: await context.acheckpoint(...)",
}


@dataclass(slots=True)
class Checkpoint:
    """The data that this attempt has saved, as JSON; before that, what an earlier attempt has saved."""

    text: str | None

    def load(self) -> Any:
        return None if self.text is None else json.loads(self.text)


def save(claim: Claim, column: Column, text: str) -> None:
    """Write a column of the job that the task runs for; raises ClaimLost if its process has lost it."""
    if not run_one(lambda sql: save_task_data(sql, claim, column, text), _ASYNC_FORMS[column]):
        raise _claim_lost(claim)


async def asave(claim: Claim, column: Column, text: str) -> None:
    """The async form of `save`."""
    if not await arun_one(lambda sql: save_task_data(sql, claim, column, text)):
        raise _claim_lost(claim)


def _claim_lost(claim: Claim) -> ClaimLost:
    return ClaimLost(f"{claim.label()} is no longer claimed by this process: nothing was saved")
