"""The base classes of events, and the names of callables in them."""

from __future__ import annotations

import logging
import re
from typing import Any, ClassVar, NoReturn, dataclass_transform

__all__ = ["POLLING", "Event", "Fault"]

#: The level of events that occur many times a second. It is below DEBUG: the logger must be set to it explicitly.
POLLING = 5


#: A number, then a noun with its plural in brackets; no other number may stand between them.
_PLURAL = re.compile(r"(%\((?P<field>\w+)\)[,.\d]*[df](?:[^%\[]|%\(\w+\)s)*)\[(?P<plural>\w+)\]")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Event:
    """Something that happened. Its fields are the annotations of its class; `level` is the level of its log line.

    Type checkers see dataclasses. Real dataclasses would take longer to create than everything else that a process
    imports.
    """

    level: ClassVar[int] = logging.DEBUG
    #: The format of `message`: `%(field)s` is a field, `%(count)d task[s]` drops the letters in brackets if count is 1.
    text: ClassVar[str] = ""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def message(self) -> str:
        """The message of the log line: the text with its fields, and the singular or plural of its numbers."""
        return self.format_text() % vars(self)

    def format_text(self) -> str:
        """The format of the message, for `logging`: the fields are not filled in, the plurals are chosen."""
        return _PLURAL.sub(self._choose_number, self.text) if "[" in self.text else self.text

    def _choose_number(self, found: re.Match[str]) -> str:
        return found[1] + ("" if vars(self)[found["field"]] == 1 else found["plural"])

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"


class Fault(Event):
    """An error in the runtime that the runtime survived. `hooks.on_error` receives these events."""

    level: ClassVar[int] = logging.ERROR
    exception: BaseException

    @property
    def origin(self) -> str:
        """The part of the runtime in which the error occurred."""
        raise NotImplementedError


def name_of(call: object) -> str:
    """The name of a hook, subscriber or receiver, or its repr. Never raises, because `call` may be any object."""
    try:
        return str(getattr(call, "__qualname__", None) or repr(call))
    except BaseException:
        return f"a {type(call).__qualname__} that cannot be shown"
