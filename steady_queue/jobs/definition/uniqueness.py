"""Uniqueness: at most one task with the same key waits, or is unfinished."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from inspect import Parameter, iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal

from steady_queue import arguments
from steady_queue.arguments.decoding import MARK
from steady_queue.arguments.json_text import parse
from steady_queue.errors import UniqueKeyError
from steady_queue.jobs.definition.key_text import compute_key
from steady_queue.jobs.definition.signatures import signature_of
from steady_queue.store.job import OnDuplicate, Uniqueness, Until
from steady_queue.store.names import LONGEST_TIMEDELTA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from steady_queue.jobs.compat import Task

MICROSECOND = timedelta(microseconds=1)
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """`key` is a text, or a function of the task's arguments; without it, all arguments are the key.

    The key is taken until the task has started, or until it has finished, and for at least `within`. A second task with
    that key is refused, returned as the existing one, or replaces the one that waits.
    """

    key: str | Callable[..., Any] | None = None
    until: Literal["started", "finished"] = "finished"
    within: timedelta | None = None
    on_conflict: Literal["reject", "return_existing", "replace"] = "reject"

    def key_for(self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Return the key of one call. It begins with the path of the task."""
        path = task.module_path
        key = partial(_digest, task) if self.key is None else self.key
        return compute_key(UniqueKeyError, path, path, key, args, kwargs)

    @property
    def rule(self) -> Uniqueness:
        """How a new job takes its key."""
        within = None if self.within is None else self.within // MICROSECOND
        on_duplicate = OnDuplicate[self.on_conflict.upper()]
        return Uniqueness(Until[self.until.upper()], on_duplicate, within, is_digest=self.key is None)


def _digest(task: Task[..., Any], *args: Any, **kwargs: Any) -> str:
    """A text that is equal for equal arguments, however they are passed. Arguments may be longer than a key."""
    accepted = signature_of(task.func, takes_context=task.takes_context)
    if accepted is not None:
        bound = accepted.bind(*args, **kwargs)
        bound.apply_defaults()
        args, kwargs = bound.args, bound.kwargs
    return _digest_nodes(parse(arguments.dumps(args, kwargs)))


def has_computed_key(task: Task[..., Any], key: str, text: str) -> bool:
    """Whether the key of a stored call, whose arguments are the text, is their digest. No query.

    It may be computed otherwise now, if the signature of the task has changed.
    """
    version, args, kwargs = parse(text)
    accepted = signature_of(task.func, takes_context=task.takes_context)
    if accepted is not None:
        bound = accepted.bind(*args, **kwargs)
        given = set(bound.arguments)
        bound.apply_defaults()
        for name in bound.arguments.keys() - given:
            if accepted.parameters[name].kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
                bound.arguments[name] = parse(arguments.dumps([bound.arguments[name]], {}))[1][0]
        args, kwargs = list(bound.args), bound.kwargs
    return key == f"{task.module_path}/{_digest_nodes([version, args, kwargs])}"


def is_like_digest(key: str, path: str) -> bool:
    """Whether the key of a task may be the digest of its arguments."""
    return key.startswith(f"{path}/") and _DIGEST.fullmatch(key, len(path) + 1) is not None


def _digest_nodes(nodes: Any) -> str:
    return hashlib.sha256(json.dumps(_sort_pairs(nodes), sort_keys=True).encode()).hexdigest()


def _sort_pairs(node: Any) -> Any:
    """The JSON of arguments, where dicts whose keys are no strings are lists of pairs, without the order of these."""
    if type(node) is list:
        return [_sort_pairs(item) for item in node]
    if type(node) is not dict:
        return node
    items = {name: _sort_pairs(value) for name, value in node.items()}
    if items.get(MARK) == "dict":
        items["v"] = sorted(items["v"], key=partial(json.dumps, sort_keys=True))
    return items


def find_problems(unique: object) -> Iterator[str]:
    """What is wrong with the option `unique` of a task."""
    if not isinstance(unique, Unique):
        yield f"unique must be Unique(...), not {unique!r}"
        return
    key: object = unique.key
    if iscoroutinefunction(key):
        yield "unique: key must not be an async function"
    elif not (key is None or isinstance(key, str) or callable(key)):
        yield f"unique: key must be a string or a callable, not {key!r}"
    if unique.until not in ("started", "finished"):
        yield f"unique: until must be 'started' or 'finished', not {unique.until!r}"
    if unique.within is not None and not (
        isinstance(unique.within, timedelta) and timedelta(0) < unique.within <= LONGEST_TIMEDELTA
    ):
        yield f"unique: within must be a timedelta greater than zero, not {unique.within!r}"
    if unique.on_conflict not in ("reject", "return_existing", "replace"):
        yield f"unique: on_conflict must be 'reject', 'return_existing' or 'replace', not {unique.on_conflict!r}"
