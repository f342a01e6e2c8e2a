"""A deadline for calls that know none: not every driver has a limit for every way in which a server may not answer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from steady_queue.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def answer_of(function: Callable[[], T], *, within: float) -> T:
    """What the function returns or raises, from a thread of its own that is left alone if it takes longer."""
    answers: list[Callable[[], T]] = []

    def call() -> None:
        try:
            result = function()
        except Exception as error:
            failure = error  # the name after `as` ends with the block

            def fail() -> T:
                raise failure

            answers.append(fail)
        else:
            answers.append(lambda: result)

    thread = threading.Thread(target=call, name="steady queue deadline", daemon=True)
    thread.start()
    thread.join(within)
    if not answers:
        raise StoreUnavailable(f"no answer within {within:g} s")
    return answers[0]()
