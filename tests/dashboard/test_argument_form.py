"""Arguments that are edited: what is stored is shown, secrets are not, and what is sent is checked."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steady_queue import arguments
from steady_queue.dashboard.argument_form import EDITED_CHARACTERS, build_form, describe_error, read_form
from steady_queue.errors import ArgumentError, ConcurrencyKeyError, SteadyQueueError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

ADD, ANYTHING = "tests.shop.tasks.add", "tests.shop.tasks.anything"


def read(stored: str, args: Any = None, kwargs: Any = None, path: str = ANYTHING) -> tuple[Any, Any]:
    """The arguments after the form was sent with these changes."""
    form = build_form(stored, path)
    texts = [
        shown if new is None else new if isinstance(new, str) else json.dumps(new)
        for shown, new in ((form.args, args), (form.kwargs, kwargs))
    ]
    call = read_form(stored, path, texts[0], texts[1], form.version)
    return call.args, call.kwargs


def test_a_form_that_is_sent_as_it_was_shown_changes_nothing() -> None:
    when = datetime(2026, 1, 31, tzinfo=UTC)
    args, kwargs = ((1, "é\u202e\x00", when), [1.5, None]), {"a": {1: 2}, "b": "\ud800", "password": "x"}
    stored = arguments.dumps(args, kwargs)
    form = build_form(stored, ANYTHING)
    assert "é\\u202e\\u0000" in form.args
    assert "\ud800" not in form.kwargs
    assert read(stored) == (args, kwargs)


@pytest.mark.parametrize("error", [KeyError("s3cret"), ValueError("s3cret"), ConcurrencyKeyError("KeyError: 's3cret'")])
def test_an_error_that_may_quote_a_secret_is_described_without_its_text(error: Exception) -> None:
    secret, plain = arguments.dumps([], {"password": "s3cret"}), arguments.dumps([], {"name": "s3cret"})
    assert describe_error(error, secret, ANYTHING) == (
        f"{type(error).__name__}; its text may contain an argument that is not shown"
    )
    assert "s3cret" in describe_error(error, plain, ANYTHING)
    assert describe_error(ArgumentError("argument 'a' is missing"), secret, ANYTHING) == "argument 'a' is missing"


def test_secrets_are_not_shown_and_stay_as_they_are() -> None:
    secret = {"user": "ada", "password": "s3cret", "nested": [{"api_token": ["t", "u"]}, {1: {"password": "p"}}]}
    stored = arguments.dumps([secret], {"token": "t0ken", "name": "x"})
    form = build_form(stored, ANYTHING)
    shown = form.args + form.kwargs
    assert form.has_secrets
    for value in ("s3cret", "t0ken", '"t"', '"p"'):
        assert value not in shown
    assert read(stored) == ((secret,), {"token": "t0ken", "name": "x"})
    assert json.loads(form.args) == [
        {
            "user": "ada",
            "password": "[redacted 1]",
            "nested": [{"api_token": "[redacted 2]"}, {"$": "dict", "v": [[1, {"password": "[redacted 3]"}]]}],
        }
    ]
    assert read(stored, kwargs={"name": "y", "token": "[redacted 4]"}) == ((secret,), {"token": "t0ken", "name": "y"})
    assert read(stored, kwargs={"name": "y", "token": "new"})[1] == {"token": "new", "name": "y"}
    assert read(stored, kwargs={"name": "y"})[1] == {"name": "y"}


def test_positional_arguments_of_a_task_that_cannot_be_imported_are_not_shown() -> None:
    form = build_form('[1,["hunter2",[1]],{"name":"x"}]', "no.such.task")
    assert json.loads(form.args) == ["[redacted 1]", "[redacted 2]"]
    assert json.loads(form.kwargs) == {"name": "x"}


def test_secrets_in_values_of_another_version_are_neither_shown_nor_named_in_an_error() -> None:
    for stored in (
        '[1,[],{"a":{"$":"unknown","password":"hunter2"}}]',
        '[1,[],{"password":{"$":"int","v":"hunter2"}}]',
    ):
        assert "hunter2" not in build_form(stored, ANYTHING).kwargs
        with pytest.raises(ArgumentError, match="one that is not shown") as raised:
            read(stored)
        assert "hunter2" not in str(raised.value)


def test_a_placeholder_that_was_moved_is_refused() -> None:
    users = [{"user": "a", "password": "A-pw"}, {"user": "b", "password": "B-pw"}]
    stored = arguments.dumps([], {"token": "t0ken", "users": users, "name": "x"})
    first, second = json.loads(build_form(stored, ANYTHING).kwargs)["users"]
    assert (first["password"], second["password"]) == ("[redacted 2]", "[redacted 3]")
    for kwargs in (
        {"name": "[redacted 1]"},
        {"token": "[redacted]"},
        {"token": "[redacted 2]"},
        {"token": "[redacted 9]"},
        {"users": [second, first]},
        {"users": [second]},
        {"users": [{"user": "new", "password": "new"}, first, second]},
        {"users": {"password": "[redacted 2]"}},
        {"users": [[first]]},
        {"other": {"token": "[redacted 1]"}},
    ):
        with pytest.raises(ArgumentError, match="does not stand for a secret here"):
            read(stored, kwargs=kwargs)
    with pytest.raises(ArgumentError, match=r"'\[redacted 1\]' does not stand"):
        read(stored, args=["[redacted 1]"])


PAYLOAD = {1: "one", "password": "mapSecret"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"password"', '"note"'),
        ('"password"', '"token"'),
        ('"password"', '{"$": "str", "v": ["no", "te"]}'),
        ('"$": "dict"', '"$": "tuple"'),
        ('"$": "dict"', '"$": "set"'),
        ('"$": "dict"', '"$": ["dict"]'),
        ('"$": "dict"', '"a": "dict"'),
        ('[1, "one"], ', ""),
        ('"payload"', '"other"'),
        ('{"payload": ', '{"payload": 1, "other": '),
    ],
)
def test_a_secret_stays_under_its_name_and_marker(old: str, new: str) -> None:
    stored = arguments.dumps([], {"payload": PAYLOAD})
    shown = json.dumps(json.loads(build_form(stored, ANYTHING).kwargs))
    assert shown == '{"payload": {"$": "dict", "v": [[1, "one"], ["password", "[redacted 1]"]]}}'
    with pytest.raises(ArgumentError, match="under the same names"):
        read(stored, kwargs=shown.replace(old, new))
    with pytest.raises(ArgumentError, match="under the same names"):
        read(arguments.dumps([{"payload": PAYLOAD}], {}), args=f"[{shown.replace(old, new)}]")


def test_what_is_beside_a_secret_can_be_changed() -> None:
    stored = arguments.dumps([PAYLOAD], {})
    shown = build_form(stored, ANYTHING).args
    assert read(stored, args=shown.replace('"one"', '"two"')) == (({1: "two", "password": "mapSecret"},), {})
    assert read(stored, args=shown.replace('"[redacted 1]"', '"new"')) == (({1: "one", "password": "new"},), {})
    changed = json.loads(shown)
    changed[0]["v"] = [["a", 2], changed[0]["v"][1]]
    assert read(stored, args=changed) == (({"a": 2, "password": "mapSecret"},), {})


def test_the_secrets_of_a_task_are_not_given_to_another_one() -> None:
    stored = arguments.dumps([], {"password": "hunter2"})
    form = build_form(stored, ANYTHING)
    texts = (form.args, form.kwargs, form.version)
    assert read_form(stored, ANYTHING, *texts, shown_for=ANYTHING).kwargs == {"password": "hunter2"}
    with pytest.raises(ArgumentError, match="for the same task"):
        read_form(stored, ADD, *texts, shown_for=ANYTHING)


KEYS = st.sampled_from(["password", "note", "token", 1, None, ("password", 1), ("note", 1)])
VALUES = st.recursive(
    st.sampled_from(["hunter2", "text", 5]),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=12,
)


# The same examples in every run, however slow the machine is.
@settings(max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(kwargs=st.dictionaries(st.sampled_from(["a", "b", "password"]), VALUES, max_size=3), random=st.randoms())
def test_no_change_of_the_form_shows_a_secret(kwargs: dict[str, Any], random: Random) -> None:
    stored = arguments.dumps([], _secrets_only_where_they_are_hidden(kwargs))
    form = build_form(stored, ANYTHING)
    assert "hunter2" not in form.kwargs
    changed = json.loads(form.kwargs)
    for _ in range(random.randint(1, 2)):
        _change(changed, random)
    assert "hunter2" not in _shown_after(stored, json.dumps(changed), form.version)


def _shown_after(stored: str, kwargs: str, version: str) -> str:
    """What the form shows when it was sent and is opened again, or why it was refused."""
    try:
        call = read_form(stored, ANYTHING, "[]", kwargs, version)
        return build_form(arguments.dumps(call.args, call.kwargs), ANYTHING).kwargs
    except SteadyQueueError as error:
        return str(error)


def _secrets_only_where_they_are_hidden(value: Any, *, is_hidden: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key: _secrets_only_where_they_are_hidden(
                item, is_hidden=is_hidden or any(word in repr(key) for word in ("password", "token"))
            )
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)(_secrets_only_where_they_are_hidden(item, is_hidden=is_hidden) for item in value)
    return "visible" if value == "hunter2" and not is_hidden else value


def _change(document: Any, random: Random) -> None:
    """Rename a part of the document, or exchange two parts, or give one to the place of another."""
    places = list(_places(document))
    if not places:
        return
    (one, key), (other, name) = random.choice(places), random.choice(places)
    match random.randrange(4):
        case 0 if type(one) is dict:
            one[random.choice(["note", "password", "$", "v"])] = one.pop(key)
        case 1:
            one[key] = random.choice(["note", "token", "tuple", "dict", "set", [], "[redacted 1]", "[redacted 2]"])
        case 2:
            one[key] = json.loads(json.dumps(other[name]))
        case _ if type(one) is list:
            random.shuffle(one)


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in list(enumerate(node) if type(node) is list else node.items() if type(node) is dict else ()):
        yield node, key
        yield from _places(item)


def test_objects_of_a_list_may_be_added_and_removed_behind_a_placeholder() -> None:
    users = [{"user": "a", "password": "A-pw"}, {"user": "b", "password": "B-pw"}]
    stored = arguments.dumps([users], {})
    ((first, second),) = json.loads(build_form(stored, ANYTHING).args)
    new = {"user": "c", "password": "C-pw"}
    assert read(stored, args=[[first, second, new]]) == (([*users, new],), {})
    assert read(stored, args=[[first, new]]) == (([users[0], new],), {})
    assert read(stored, args=[[first]]) == ((users[:1],), {})


def test_a_stored_text_that_looks_like_a_placeholder_stays_where_it_is() -> None:
    kwargs = {"note": "[redacted]", "more": ["[redacted 1]"], "password": "[redacted]", "token": "t0ken"}
    stored = arguments.dumps([], kwargs)
    assert '"token": "[redacted 1]"' in build_form(stored, ANYTHING).kwargs
    assert read(stored) == ((), kwargs)
    with pytest.raises(ArgumentError, match="does not stand for a secret here"):
        read(stored, kwargs={"note": "[redacted 1]"})


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ("[1", None, "the positional arguments are not JSON: "),
        ("{}", None, r"the positional arguments must be a list: \[...\]"),
        (None, "[]", r"the keyword arguments must be an object: \{...\}"),
        ("[NaN]", None, "NaN is not a value of JSON"),
        ("", None, "not JSON"),
        ("[" * 100_000, None, "not JSON"),
        ('[{"$": "unknown"}]', None, "unknown marker"),
        ('[{"$": "model", "v": "no.Model", "pk": 1, "db": "default"}]', None, "no"),
    ],
)
def test_what_cannot_be_read_is_refused(args: str | None, kwargs: str | None, says: str) -> None:
    with pytest.raises((SteadyQueueError, ValueError), match=says):
        read("[1,[1],{}]", args, kwargs)


def test_a_form_that_was_shown_for_other_arguments_is_refused() -> None:
    form = build_form("[1,[1],{}]", ADD)
    with pytest.raises(ArgumentError, match="have changed since"):
        read_form("[1,[2],{}]", ADD, form.args, form.kwargs, form.version)


def test_arguments_that_cannot_be_read_can_be_replaced() -> None:
    for stored in ("not JSON", "[9]", "[1,[],[]]", "[" * 50_000):
        form = build_form(stored, ADD)
        assert (form.args, form.kwargs, form.problem) == ("[]", "{}", "")
        assert read(stored, args=[7], path=ADD) == ((7,), {})


def test_arguments_that_are_too_long_are_not_edited() -> None:
    form = build_form(arguments.dumps(["x" * EDITED_CHARACTERS], {}), ADD)
    assert "too many to edit" in form.problem
