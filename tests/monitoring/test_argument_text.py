"""Arguments as text: readable, without secrets, never long."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import steady_queue
from steady_queue.monitoring.jobs.argument_text import (
    ARGUMENT_CHARACTERS,
    PARSED_CHARACTERS,
    SHORT_CHARACTERS,
    describe_arguments,
    load_redacted,
    short_text,
)
from steady_queue.monitoring.jobs.redaction import is_secret, redact
from tests.support.store.states import with_arguments

PATH = "tests.shop.tasks.greet"
SECRETS = ["password", "PASSWORD", "user_password", "newPassword1", "api_key", "apiKey", "X-Api-Key", "key"]
SECRETS += ["access_token", "Authorization", "client.secret", "secretKey", "Cookie", "credentials", "accessKey"]
SECRETS += [
    "SSHKey",
    "AWSKey",
    "HTTPAuth",
    "JWTAuth",
    "OTPCode",
    "DBPassword",
    "APIKey",
    "API-KEY",
    "userPIN",
    "gpgKEY",
]
SECRETS += [
    "sshKey2",
    "password1",
    "ssh_key_2",
    "key1",
    "key_",
    "pin-2",
    "AES256Key",
    "S3Key",
    "passPhrase",
    "pass_word",
]
SECRETS += ["pwd", "dbPwd", "DB_PWD", "userPwd3", "otp_code", "_auth"]


def short(*args: Any, **kwargs: Any) -> str:
    text = with_arguments(*args, **kwargs)
    return short_text(text, len(text), PATH)


@pytest.mark.parametrize("name", SECRETS)
def test_values_with_secret_names_are_redacted_wherever_they_are(name: str) -> None:
    assert is_secret(name)
    assert redact({"a": [{name: "hunter2"}], name: {"deep": "hunter2"}}) == {
        "a": [{name: "[redacted]"}],
        name: "[redacted]",
    }
    assert "hunter2" not in short({name: "hunter2"}, **{name: "hunter2"})
    described = describe_arguments(with_arguments({name: "hunter2"}, **{name: "hunter2"}), PATH)
    assert "hunter2" not in repr(described)


@pytest.mark.parametrize(
    "name",
    [
        *("monkey", "keyword", "author", "name", "spinner", "compass", "id"),
        *("", "1", "monkey2", "IDName", "pinned", "HTMLPage"),
    ],
)
def test_values_with_other_names_are_shown(name: str) -> None:
    assert not is_secret(name)


def test_a_pattern_of_the_project_may_have_digits_and_no_underscores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "redacted_arguments", ("line2", "ibancode"))
    assert [name for name in ("line1", "line2", "line", "IBANCode", "iban_code3", "iban") if is_secret(name)] == [
        "line2",
        "IBANCode",
        "iban_code3",
    ]


def test_positional_arguments_have_the_names_of_the_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    described = describe_arguments(with_arguments("Ada"), PATH)
    (argument,) = described.values
    assert argument.text == '"Ada"'
    monkeypatch.setattr(steady_queue, "redacted_arguments", (argument.name,))
    assert short("Ada") == '"[redacted]"'


def test_positional_arguments_whose_names_are_not_known_are_redacted() -> None:
    text = with_arguments(["hunter2"], {"a": "hunter2"}, name="Ada")
    assert short_text(text, len(text), "no.such.task") == '"[redacted]", "[redacted]", name="Ada"'
    assert "hunter2" not in repr(describe_arguments(text, "no.such.task"))
    assert load_redacted(text, len(text), "no.such.task")[0] == ["[redacted]"] * 2
    # The task had another parameter when it was enqueued.
    assert short("Ada", 1, "hunter2") == '"Ada", 1, "[redacted]"'
    text = with_arguments("Ada", "Grace")
    assert short_text(text, len(text), "tests.shop.tasks.anything") == '"Ada", "Grace"'


def test_secret_names_in_markers_are_found() -> None:
    unknown = {"$": "unknown", "password": "hunter2", "v": [{"token": "hunter2"}]}
    assert "hunter2" not in repr(redact(unknown))
    keys = [1, "password", {"$": "safe", "v": "password"}, {"$": "str", "v": ["pass", "word"]}]
    shown = redact({"$": "dict", "v": [[key, "hunter2"] for key in keys] + [["hunter"], 5]})
    assert shown["v"] == [[1, "hunter2"], *[[key, "[redacted]"] for key in keys[1:]], ["hunter"], 5]
    assert redact({"$": "dict", "v": 5}) == {"$": "dict", "v": 5}


def test_why_arguments_cannot_be_read_does_not_contain_them() -> None:
    for text in ('["hunter2"]', '[1,[{"$":"hunter2"}],{}]', '[1,[{"$":"int","v":"hunter2"}],{}]', "hunter2"):
        problem = describe_arguments(text, PATH).problem
        assert problem
        assert "hunter2" not in problem


def test_values_that_are_not_json_are_shown_as_results_show_them() -> None:
    stored = with_arguments(datetime(2026, 1, 31, tzinfo=UTC), timedelta(seconds=90), (1, 2), {3: b"x"})
    text = short_text(stored, len(stored), "tests.shop.tasks.anything")
    assert text == '"2026-01-31T00:00:00+00:00", "P0DT00H01M30S", [1, 2], {"3": "x"}'


def test_long_arguments_are_cut_and_their_secrets_stay_hidden() -> None:
    assert len(short("x" * 10_000)) == SHORT_CHARACTERS
    text = with_arguments("first", {"password": "hunter2" * 100_000}, body="x" * 100)
    for end in (30, 40, 45, 60, 100, 5_000):
        shown = short_text(text[:end], len(text), PATH)
        assert "hunter" not in shown
        assert shown.startswith('"first"')
    described = describe_arguments(text[:PARSED_CHARACTERS], PATH, len(text))
    assert described.is_cut
    assert described.characters == len(text)
    assert "hunter" not in repr(described)
    (argument,) = describe_arguments(with_arguments(["y" * 100] * 1_000), PATH).values
    assert argument.is_cut
    assert len(argument.text) == ARGUMENT_CHARACTERS


@pytest.mark.parametrize("text", ["", "{", "[]", "[9,[],{}]", "[1,{},[]]", "[" * 100_000, '[1,[{"$":"?"}],{}]', "\x00"])
def test_what_cannot_be_read_is_not_shown(text: str) -> None:
    assert short_text(text, len(text), PATH) == "(not readable)"
    assert describe_arguments(text, PATH).problem
    assert json.dumps(describe_arguments(text, "\ud800 no task").values) == "[]"
