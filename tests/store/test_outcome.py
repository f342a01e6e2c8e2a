"""Reports of exceptions, as they are stored."""

from __future__ import annotations

from steady_queue.events.tracebacks import MESSAGE_LENGTH
from steady_queue.processes import ProcessExitError
from steady_queue.store.outcome import report, report_of


def test_a_report_keeps_the_beginning_and_the_end_of_a_long_message() -> None:
    message = report_of(ValueError("begin" + "x" * 1_000_000 + "end")).message
    assert message.startswith("begin")
    assert message.endswith("end")
    assert "characters left out" in message
    assert len(message) < MESSAGE_LENGTH + 100


def test_a_report_of_an_error_that_was_never_raised_has_its_path() -> None:
    found = report(ProcessExitError, "it\x00went")
    assert found.exception_class == "steady_queue.processes.ProcessExitError"
    assert found.message == "it\\x00went"
    assert found.traceback == "steady_queue.processes.ProcessExitError: it\\x00went\n"


class Hostile(Exception):
    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__


def test_a_report_survives_an_exception_whose_text_raises() -> None:
    try:
        raise Hostile from Hostile()
    except Hostile as error:
        found = report_of(error)
    assert found.exception_class.endswith("Hostile")
    assert found.message == "<the exception cannot be shown>"
    assert "Hostile" in found.traceback
