"""The text of a key that is computed from the arguments of a call: a concurrency key, or a unique key."""

from __future__ import annotations

from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING, Any

from steady_queue.store.names import KEY_LENGTH, explain_unstorable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from steady_queue.errors import ArgumentError

#: What the message calls each key, by the name of its error.
_KINDS = {"ConcurrencyKeyError": "concurrency key", "UniqueKeyError": "unique key"}


def compute_key(
    error_class: type[ArgumentError],
    path: str,
    prefix: str,
    key: str | Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str:
    """Return the key of one call of the task with this path: the prefix, a slash and the text of the value."""
    what = f"the {_KINDS[error_class.__name__]} of {path}"
    try:
        value = key(*args, **kwargs) if callable(key) else key
        text = value if type(value) is str else _text_of(value)
    except UnusableKey as problem:
        raise error_class(f"{what} {problem}") from None
    except Exception as error:
        takes = "must take" if isinstance(error, TypeError) else "gets"
        why = f"{type(error).__name__}: {error}; the function of the key {takes} the arguments of the task"
        raise error_class(f"{what} could not be computed: {why}") from error
    full = f"{prefix}/{text}"
    if reason := explain_unstorable(full, KEY_LENGTH):
        raise error_class(f"{what} {reason}")
    return full


class UnusableKey(Exception):
    """The value cannot be a key."""


def _text_of(value: object) -> str:
    from django.db.models import Model

    if value is None:
        raise UnusableKey("is None: return a value that is equal for the tasks that exclude each other")
    if isawaitable(value):
        if iscoroutine(value):
            value.close()
        raise UnusableKey(f"is {type(value).__name__}, which would have to be awaited")
    if not isinstance(value, Model):
        return str(value)
    model, pk = value._meta.concrete_model or type(value), value.pk
    if value._state.adding or pk is None:
        raise UnusableKey(f"is an instance of {model._meta.label} that has not been saved")
    return f"{model._meta.label}/{pk}"
