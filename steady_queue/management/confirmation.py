"""Questions before something is changed, and who changes it."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def confirm(question: str, options: Mapping[str, Any], otherwise: str = "nothing was changed") -> None:
    """Ask, unless the command line has --yes; raises CommandError if the answer is not yes, or there is no terminal."""
    if options["no_input"]:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"there is no terminal to ask '{question}': use --yes or --no-input")
    # Not with input(): it writes to stdout, which may be JSON.
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError(otherwise)


def find_user(options: Mapping[str, Any]) -> str:
    """Return --by, or the user of the operating system."""
    if options["by"] is not None:
        return str(options["by"])
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no such user
        return ""


def find_choice(options: Mapping[str, Any], choices: Iterable[str]) -> str | None:
    """Return which of these switches is given; raises CommandError if several are."""
    given = [name for name in choices if options[name]]
    if len(given) > 1:
        raise CommandError(f"only one of {', '.join(_switch(name) for name in given)} is possible")
    return given[0] if given else None


def _switch(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def refuse_blank(filters: Mapping[str, str]) -> None:
    """Raise CommandError for a filter without a value: without it, more tasks would match than are meant."""
    for name, value in filters.items():
        if not value.strip():
            raise CommandError(f"--{name} has no value; an empty variable of the shell?")
