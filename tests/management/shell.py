"""`manage.py steady_queue` in this process, as a shell sees it."""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple

from django.core.management import call_command


class Ran(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def shell(*words: str) -> Ran:
    """The exit status of the command, and what it writes; a CommandError is raised."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    try:
        call_command("steady_queue", *words, stdout=out, stderr=err)
    except SystemExit as error:
        status = int(str(error.code))
    return Ran(status, out.getvalue(), err.getvalue())


class Terminal(io.StringIO):
    """A stdin on which somebody has typed an answer."""

    def isatty(self) -> bool:
        return True
