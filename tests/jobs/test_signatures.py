"""Calls that do not fit the signature of their task are refused at enqueue; calls that fit never are."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import pytest
import wrapt

import steady_queue
from steady_queue import enqueue_all, task
from steady_queue.concurrency import limits_concurrency
from steady_queue.errors import ArgumentError, EnqueueError
from steady_queue.jobs.definition import signatures
from steady_queue.jobs.definition.signatures import check_call, fitting_shapes
from tests.shop import tasks
from tests.support.databases.tables import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.jobs.conftest import PutAll
    from tests.support.enqueue import Put

pytestmark = pytest.mark.contract

HERE = __name__


@task
def send_receipt(order: int, *, copy: bool = False) -> None:
    pass


@task
def positional(a: int, b: int = 0, /, *rest: int, key: str) -> None:
    pass


@task
def needs_three(a: int, b: int, c: int) -> None:
    pass


@task
def nothing() -> None:
    pass


@task
def open_ended(first: int, **options: int) -> None:
    pass


@task(takes_context=True)
def with_context(context: Any, value: int) -> None:
    pass


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@task
def odd_default(a: int, b: object = Unprintable()) -> None:
    pass


def injecting(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        function("a connection", *args, **kwargs)

    return wrapper


@task
@injecting
def injected(connection: str, value: int) -> None:
    pass


def declaring(function: Callable[..., None]) -> Callable[..., None]:
    def wrapper(*args: Any, **kwargs: Any) -> None:
        function(*args, **kwargs)

    wrapper.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    wrapper.__name__, wrapper.__qualname__ = function.__name__, function.__qualname__
    return wrapper


@task
@declaring
def declared(value: int) -> None:
    pass


@task
@injecting
@declaring
def copied(connection: str, value: int) -> None:
    pass


@wrapt.decorator
def proxying(function: Callable[..., None], instance: object, args: Any, kwargs: Any) -> None:
    function("a connection", *args, **kwargs)


@task
@proxying
def proxied(connection: str, value: int) -> None:
    pass


@task
def positional_and_options(first: int, /, **options: int) -> None:
    pass


@task(takes_context=True)  # type: ignore[arg-type]
def context_and_options(context: Any, value: int, **options: int) -> None:
    pass


@limits_concurrency(key=lambda value: value)
@task
def limited(value: int) -> None:
    pass


REFUSED: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (
        send_receipt,
        (),
        {"oder": 1},
        "send_receipt() has no argument 'oder'; did you mean 'order'? Its signature is (order, *, copy=False)",
    ),
    (send_receipt, (1,), {"xyz": 1}, "send_receipt() has no argument 'xyz'. Its signature is (order, *, copy=False)"),
    (
        send_receipt,
        (1, True),
        {},
        "send_receipt() takes 1 positional argument, but 2 were passed. Its signature is (order, *, copy=False)",
    ),
    (send_receipt, (), {}, "send_receipt() needs the argument 'order'. Its signature is (order, *, copy=False)"),
    (
        send_receipt,
        (1,),
        {"order": 2},
        "send_receipt() got the argument 'order' twice: by position and by name. Its signature is (order, *,",
    ),
    (needs_three, (1,), {}, "needs_three() needs the arguments 'b', 'c'. Its signature is (a, b, c)"),
    (nothing, (1,), {}, "nothing() takes no positional argument, but 1 was passed. Its signature is ()"),
    (positional, (1,), {}, "positional() needs the argument 'key'. Its signature is (a, b=0, /, *rest, key)"),
    (
        positional,
        (),
        {"a": 1, "key": ""},
        "positional() takes the argument 'a' only by position, not by name. Its signature is (a, b=0, /, *rest, key)",
    ),
    (positional, (1,), {"rest": 1, "key": ""}, "has no argument 'rest'."),
    (open_ended, (), {"second": 2}, "needs the argument 'first'. Its signature is (first, **options)"),
    (with_context, (), {}, "with_context() needs the argument 'value'. Its signature is (value)"),
    (with_context, (1, 2), {}, "takes 1 positional argument, but 2 were passed. Its signature is (value)"),
    (declared, (1, 2), {}, "declared() takes 1 positional argument, but 2 were passed. Its signature is (value)"),
    (limited, (), {"valu": 1}, "limited() has no argument 'valu'; did you mean 'value'? Its signature is (value)"),
    (positional_and_options, (), {"first": 1}, "needs the argument 'first'. Its signature is (first, /, **options)"),
    (context_and_options, (1,), {"context": 2}, "multiple values for argument 'context'. Its signature is (value, **"),
    (odd_default, (), {}, "odd_default() needs the argument 'a'. Its signature is (a, b)"),
]
ACCEPTED: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (send_receipt, (1,), {}),
    (send_receipt, (), {"copy": True, "order": 1}),
    (positional, (1, 2, 3, 4), {"key": "k"}),
    (open_ended, (1,), {"anything": 2}),
    (open_ended, (), {"first": 1, "second": 2}),
    (with_context, (1,), {}),
    (injected, (1,), {}),
    (injected, (), {"value": 1}),
    (copied, (1,), {}),
    (proxied, (1,), {}),
    (positional_and_options, (1,), {"first": 2}),
    (context_and_options, (1,), {"other": 2}),
    (declared, (), {"value": 1}),
    (limited, (1,), {}),
]


def name_of_case(value: object) -> str | None:
    return getattr(value, "name", None) or (value if isinstance(value, str) else None)


@pytest.mark.usually_on("sqlite")
@pytest.mark.parametrize(("target", "args", "kwargs", "says"), REFUSED, ids=name_of_case)
def test_a_call_that_does_not_fit_is_refused(
    database: str, put: Put, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], says: str
) -> None:
    for _ in range(2):  # a refusal is not remembered as a call that fits
        with pytest.raises(ArgumentError) as caught:
            put(target, *args, **kwargs)
        assert says in str(caught.value)
        assert str(caught.value).startswith(target.module_path)
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, EnqueueError)
        assert caught.value.stored == "no"
    assert count(database, "job") == 0


@pytest.mark.usually_on("sqlite")
@pytest.mark.parametrize(("target", "args", "kwargs"), ACCEPTED, ids=name_of_case)
def test_a_call_that_fits_is_stored(
    database: str, put: Put, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    put(target, *args, **kwargs)
    put(target, *args, **kwargs)
    assert count(database, "job") == 2


@pytest.mark.usually_on("sqlite")
def test_a_bulk_with_a_call_that_does_not_fit_stores_nothing(database: str, put_all: PutAll) -> None:
    with pytest.raises(ArgumentError, match="has no argument 'oder'"):
        put_all([send_receipt.bind(1), (send_receipt, [], {"oder": 2})])
    assert count(database, "job") == 0


@pytest.mark.usually_on("sqlite")
def test_the_setting_turns_the_check_off(database: str, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "check_arguments", False)
    put(send_receipt, oder=1)
    enqueue_all([(send_receipt, [1, 2, 3])])
    assert count(database, "job") == 2
    monkeypatch.setattr(steady_queue, "check_arguments", True)
    with pytest.raises(ArgumentError):
        put(send_receipt, oder=1)


def test_a_keyword_that_is_no_string_is_refused_by_the_arguments_themselves() -> None:
    check_call(send_receipt, (), {5: 1})  # type: ignore[dict-item]
    with pytest.raises(ArgumentError, match="must be a string"):
        enqueue_all([(tasks.anything, [], {5: 1})])  # type: ignore[dict-item]


def test_what_is_remembered_of_a_function_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "MAX_SHAPES", 10)
    for number in range(100):
        check_call(open_ended, (1,), {f"option_{number}": number})
    assert len(fitting_shapes(open_ended)) <= 10


def test_a_call_that_fits_is_checked_once(monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    send_receipt.enqueue(1, copy=True)
    monkeypatch.setattr(signatures, "signature_of", None)
    send_receipt.enqueue(2, copy=False)
