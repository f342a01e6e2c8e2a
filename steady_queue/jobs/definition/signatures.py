"""Whether a call fits the signature of its task: a call that does not is refused, instead of failing in a worker.

Whether a call fits depends only on the number of its positional arguments and on the names of its keyword arguments.
Those that fit are remembered for each function, so an enqueue costs one look into a set.

A call is refused only if Python would refuse it as well. So a decorator's own signature counts, not that of the
function which it wraps: the decorator may pass further arguments. `__signature__` is a declaration and counts.
"""

from __future__ import annotations

import sys
from inspect import Parameter, Signature, signature
from types import FunctionType
from typing import TYPE_CHECKING, Any

from steady_queue.errors import ArgumentError
from steady_queue.events.wording import counted, suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from steady_queue.jobs.compat import Task

#: Calls that are remembered for each function. A task with `**kwargs` can be called in any number of ways.
MAX_SHAPES = 1000
#: Defaults may be long values.
SIGNATURE_CHARACTERS = 300

_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)

#: The number of positional arguments, and the names of the keyword arguments.
Shape = tuple[int | str, ...]
#: The calls that fit, for each function, with and without context.
_fitting: dict[tuple[Callable[..., Any], bool], set[Shape]] = {}


def fitting_shapes(task: Task[..., Any]) -> set[Shape]:
    """Return the shapes of calls that are known to fit the task: `(len(args), *kwargs)`."""
    key = (task.func, task.takes_context)
    known = _fitting.get(key)
    if known is None:
        known = _fitting[key] = set()
    return known


def check_call(task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise ArgumentError if the call does not fit the signature of the task; otherwise remember its shape."""
    accepted = signature_of(task.func, takes_context=task.takes_context)
    if accepted is not None and (reason := _find_problem(task, accepted, args, kwargs)):
        raise ArgumentError(f"{task.module_path}() {reason} Its signature is {_describe(accepted)}")
    known = fitting_shapes(task)
    if len(known) >= MAX_SHAPES:
        known.clear()
    known.add((len(args), *kwargs))


def _find_problem(
    task: Task[..., Any], accepted: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str | None:
    if not all(isinstance(name, str) for name in kwargs):
        return None  # the arguments are refused when they are stored
    # Before `bind`, which in Python 3.13.0 accepts the name of a positional-only argument if there are `**kwargs`.
    if reason := next(_explain(accepted, args, kwargs), None):
        return reason
    try:
        if task.takes_context:  # with the context, whose name `**kwargs` must not have
            (signature_of(task.func, takes_context=False) or accepted).bind(None, *args, **kwargs)
        else:
            accepted.bind(*args, **kwargs)
    except TypeError as error:
        return f"cannot be called with these arguments: {error}."
    return None


def signature_of(function: Callable[..., Any], *, takes_context: bool) -> Signature | None:
    """Return the signature with which a task is enqueued, without the context; None if it cannot be known."""
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None and type(function) is not FunctionType:
        return None  # a proxy, as wrapt makes them, shows the signature of the wrapped function
    declared = getattr(function, "__signature__", None)
    if declared is not None and declared is getattr(wrapped, "__signature__", None):
        return None  # functools.wraps has copied it: it describes the wrapped function
    options: dict[str, Any] = {"follow_wrapped": False}
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        options["annotation_format"] = Format.STRING  # evaluated, an annotation may name what was not imported
    try:
        found = signature(function, **options)
    except (TypeError, ValueError):
        return None
    parameters = list(found.parameters.values())
    if takes_context and parameters and parameters[0].kind in _BY_POSITION:
        del parameters[0]
    return found.replace(parameters=parameters, return_annotation=Signature.empty)


def _explain(accepted: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the call, the cause of other problems first."""
    kinds = {parameter.kind for parameter in accepted.parameters.values()}
    by_position = [name for name, parameter in accepted.parameters.items() if parameter.kind in _BY_POSITION]
    by_name = [name for name, parameter in accepted.parameters.items() if parameter.kind in _BY_NAME]
    if Parameter.VAR_KEYWORD not in kinds:
        yield from (_explain_unknown(name, by_position, by_name) for name in kwargs if name not in by_name)
    if len(args) > len(by_position) and Parameter.VAR_POSITIONAL not in kinds:
        accepts = counted(len(by_position), "positional argument") if by_position else "no positional argument"
        yield f"takes {accepts}, but {len(args)} {'was' if len(args) == 1 else 'were'} passed."
    passed = by_position[: len(args)]
    for name in passed:
        if name in kwargs and name in by_name:
            yield f"got the argument {name!r} twice: by position and by name."
    required = (name for name in (*by_position, *by_name) if accepted.parameters[name].default is Parameter.empty)
    given = {*passed, *(name for name in kwargs if name in by_name)}
    if missing := [name for name in dict.fromkeys(required) if name not in given]:
        yield f"needs the argument{'' if len(missing) == 1 else 's'} {', '.join(map(repr, missing))}."


def _explain_unknown(name: str, by_position: Sequence[str], by_name: Sequence[str]) -> str:
    if name in by_position:
        return f"takes the argument {name!r} only by position, not by name."
    suggestion = suggest(name, by_name)
    return f"has no argument {name!r}{f'; {suggestion}' if suggestion else '.'}"


def _describe(accepted: Signature) -> str:
    """Return the signature without annotations."""
    plain = [parameter.replace(annotation=Parameter.empty) for parameter in accepted.parameters.values()]
    try:
        text = str(Signature(plain))
    except Exception:  # the default of an argument has a `__repr__` that fails
        text = f"({', '.join(parameter.name for parameter in plain)})"
    return text if len(text) <= SIGNATURE_CHARACTERS else f"{text[:SIGNATURE_CHARACTERS]}…"
