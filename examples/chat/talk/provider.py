"""Simulates the stream of a language model: no model, no network, the same answer every time."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SECONDS_PER_TOKEN = 0.05
SENTENCES = 8

SUBJECTS = ("A queue", "The event loop", "Every worker", "A careful reader", "The database", "A small task")
VERBS = ("waits for", "remembers", "quietly follows", "releases", "never forgets", "asks about")
OBJECTS = (
    "the next row",
    "an open connection",
    "its last promise",
    "a slow answer",
    "the other coroutines",
    "an index",
)


class ProviderError(Exception):
    """The stream was interrupted."""


async def stream(prompt: str) -> AsyncIterator[str]:
    """Yields the answer, token by token. The prompt `fail` raises an exception halfway."""
    tokens = _words(prompt)
    for number, token in enumerate(tokens):
        if prompt.strip().lower() == "fail" and number == len(tokens) // 2:
            raise ProviderError("the provider has gone away")
        await asyncio.sleep(SECONDS_PER_TOKEN)
        yield token


def _words(prompt: str) -> list[str]:
    """Random words, with the prompt as the seed."""
    chance = random.Random(prompt)
    sentences = [
        f"{chance.choice(SUBJECTS)} {chance.choice(VERBS)} {chance.choice(OBJECTS)}." for _ in range(SENTENCES)
    ]
    text = f"You asked: {prompt} I am not a language model, but I can talk. {' '.join(sentences)}"
    return [f"{word} " for word in text.split()]
