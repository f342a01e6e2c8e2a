"""Exceptions as text of bounded length."""

from __future__ import annotations

import traceback

import pytest

from steady_queue.events.tracebacks import MESSAGE_LENGTH, TRACEBACK_LENGTH, cut, is_oversized, stand_in, traceback_of

HUGE = "x" * (TRACEBACK_LENGTH + 1)


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def chained(length: int) -> BaseException:
    error: BaseException = ValueError("the first")
    for number in range(length):
        error = raised(ValueError(f"number {number}"), error)
    return error


def noted(error: BaseException, note: str) -> BaseException:
    error.add_note(note)
    return error


class ErrorWithoutText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def with_notes(error: BaseException, *notes: object) -> BaseException:
    error.__notes__ = list(notes)  # type: ignore[arg-type]  # `add_note` takes texts only
    return error


@pytest.mark.parametrize(
    "error",
    [
        raised(ValueError(HUGE)),
        raised(ValueError("short"), KeyError(HUGE)),
        raised(noted(ValueError("short"), HUGE)),
        raised(BaseExceptionGroup("group", [ValueError(HUGE), KeyboardInterrupt()])),
        raised(ExceptionGroup("group", [ValueError("part") for _ in range(10_000)])),
        chained(1_000),
    ],
    ids=["text", "cause", "note", "part", "many parts", "long chain"],
)
def test_an_oversized_exception_has_a_bounded_stand_in(error: BaseException) -> None:
    assert is_oversized(error)
    stand = stand_in(error)
    assert len("".join(traceback.format_exception(stand))) < TRACEBACK_LENGTH
    kind = type(stand)
    assert (kind.__name__, kind.__module__) == (type(error).__name__, type(error).__module__)
    assert stand.__traceback__ is error.__traceback__


@pytest.mark.parametrize(
    "error",
    [
        raised(ValueError("x" * MESSAGE_LENGTH * 2)),
        raised(ValueError("short"), KeyError("cause")),
        raised(ErrorWithoutText()),
        chained(20),
    ],
)
def test_an_exception_of_a_usual_size_is_logged_itself(error: BaseException) -> None:
    assert not is_oversized(error)


def test_an_exception_that_is_its_own_cause_has_an_end() -> None:
    error = ValueError(HUGE)
    error.__cause__ = error
    assert is_oversized(error)
    assert stand_in(error).__cause__ is not None


def test_a_stand_in_keeps_the_cause_and_the_notes() -> None:
    error = raised(noted(ValueError(HUGE), "a note"), KeyError("the cause"))
    text = "".join(traceback.format_exception(stand_in(error)))
    assert "KeyError: 'the cause'" in text
    assert "The above exception was the direct cause" in text
    assert "a note" in text


def test_a_note_that_is_no_text_has_a_placeholder() -> None:
    error = raised(with_notes(ValueError(HUGE), "a note", ErrorWithoutText()))
    assert is_oversized(error)
    assert stand_in(error).__notes__ == ["a note\n<note>"]
    assert not is_oversized(raised(with_notes(ValueError("short"), ErrorWithoutText())))


def test_a_text_is_cut_in_the_middle() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("a" * 10 + "b" * 10, 6) == "aa\n... 14 characters left out ...\nbbbb"


def test_a_traceback_is_bounded() -> None:
    assert len(traceback_of(raised(ValueError(HUGE)))) < TRACEBACK_LENGTH + 100


class Proxy(Exception):
    def __getattr__(self, name: str) -> object:
        raise KeyError(name)


def test_an_exception_whose_attributes_cannot_be_read_is_measured_all_the_same() -> None:
    assert not is_oversized(Proxy("small"))
    assert is_oversized(Proxy("x" * 100_000))
    assert len(str(stand_in(Proxy("x" * 100_000)))) < 10_000


def test_a_group_of_many_small_exceptions_is_logged_itself() -> None:
    assert not is_oversized(ExceptionGroup("many", [ValueError(str(number)) for number in range(150)]))


def test_the_stand_in_of_a_group_keeps_some_of_its_parts() -> None:
    group = ExceptionGroup("group", [ValueError("small"), ValueError("x" * 100_000), *[KeyError()] * 100])
    stand = stand_in(group)
    assert isinstance(stand, ExceptionGroup)
    assert str(stand.exceptions[0]) == "small"
    assert type(stand.exceptions[0]).__name__ == "ValueError"
    assert len("".join(traceback.format_exception(stand))) < 50_000
    assert stand.__notes__ == ["87 more sub-exceptions are left out"]
