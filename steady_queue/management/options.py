"""Overrides: what the command line and the environment change of settings.STEADY_QUEUE. The command line wins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from steady_queue.configuration import Options, Worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX = "STEADY_QUEUE_"
#: What may be overridden for every worker, and for the whole installation.
OF_WORKERS = ("coroutines", "threads", "processes")
NUMBERS = (*OF_WORKERS, "max_tasks", "max_rss")
SWITCHES = ("only_work", "skip_recurring", "drain", "async")
TEXTS = ("queues", "log_format")


@dataclass(frozen=True, slots=True)
class ResolvedOptions:
    """What is to run, and every problem of what was asked for beside it."""

    options: Options
    in_one_loop: bool = False
    drain: bool = False
    #: The queues that were named here, not in settings.py.
    named_queues: Sequence[str] = ()
    problems: Sequence[str] = ()


def resolve(options: Options, given: Mapping[str, Any], environ: Mapping[str, str]) -> ResolvedOptions:
    """The options with the overrides of the command line (`given`, None where silent) and the environment."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name in (*NUMBERS, *SWITCHES, *TEXTS):
        where, value = f"--{name.replace('_', '-')}", given.get(name)
        if value is None:
            where = f"{PREFIX}{name.upper()}"
            value = environ.get(where) or None
        if value is not None:
            values[name] = _read(name, value, where, problems)
    queues = values.get("queues") or []
    # Options that are wrong in kind cannot be changed; they are told of as they are.
    is_sound = not any(options.type_problems())
    changes = {name: values[name] for name in OF_WORKERS if values.get(name) is not None}
    workers = _workers(options, queues, changes) if is_sound else options.workers
    for_all = {
        name: values[name]
        for name in ("max_tasks", "max_rss", "log_format", "only_work", "skip_recurring")
        if values.get(name) is not None
    }
    return ResolvedOptions(
        options=replace(options, workers=workers, **for_all),
        in_one_loop=bool(values.get("async")),
        drain=bool(values.get("drain")),
        named_queues=queues,
        problems=problems,
    )


def _read(name: str, value: Any, where: str, problems: list[str]) -> Any:
    if name in NUMBERS:
        try:
            return int(value)
        except (TypeError, ValueError):
            problems.append(f"{where} must be a whole number, not {value!r}")
            return None
    if name in SWITCHES:
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word not in _WORDS:
            problems.append(f"{where} must be 1 or 0, not {value!r}")
        return _WORDS.get(word)
    if name == "queues":
        names = value if isinstance(value, (list, tuple)) else str(value).split(",")
        found = [queue.strip() for queue in names if queue.strip()]
        if not found:
            problems.append(f"{where} names no queue: {value!r}")
        return found
    return str(value)


_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _workers(options: Options, queues: Sequence[str], changes: Mapping[str, Any]) -> list[Worker]:
    """The configured workers, changed; or one for the queues that were named, otherwise like the first of them."""
    workers = list(options.workers)
    if queues:
        workers = [replace(workers[0] if workers else Worker(), queues=list(queues))]
    return [replace(worker, **changes) for worker in workers]
