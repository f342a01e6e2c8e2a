"""Arguments that are edited: what is stored is shown, secrets are not, and what is sent is checked."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from steady_queue import arguments
from steady_queue.dashboard.argument_form import EDITED_CHARACTERS, build_form, read_form
from steady_queue.errors import ArgumentError, SteadyQueueError

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
