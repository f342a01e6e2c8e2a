"""What an event is.

What a hook, a subscriber or a receiver is called where it is told of.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar, NoReturn, dataclass_transform


def name_of(call: object) -> str:
    """Its name, or how it shows itself; whatever it is, this must not fail."""
    try:
        return str(getattr(call, "__qualname__", None) or repr(call))
    except BaseException:
        return f"a {type(call).__qualname__} that cannot be shown"


#: The level of what happens many times a second, below DEBUG: it is logged only if the logger is set to it.
POLLING = 5


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Event:
    """Something that happened, with what its class annotates as fields; `level` is that of its log line.

    Dataclasses to those who check types. Real ones would take longer to make than all else that a process imports.
    """

    level: ClassVar[int] = logging.DEBUG
    text: ClassVar[str] = ""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"


class Fault(Event):
    """An error inside the runtime, survived: what `hooks.on_error` is told of."""

    level: ClassVar[int] = logging.ERROR
    exception: BaseException

    @property
    def origin(self) -> str:
        """Which part of the runtime it comes from."""
        raise NotImplementedError
