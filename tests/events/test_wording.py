"""Counts, durations and rates in log lines."""

from __future__ import annotations

import pytest

from steady_queue import events
from steady_queue.events.wording import counted, duration_text, rounded_rate, suggest


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (events.ProcessStopping(name="p", running=1, seconds=None), "p is stopping: 1 task still running"),
        (events.ProcessStopping(name="p", running=0, seconds=None), "p is stopping: 0 tasks still running"),
        (events.SupervisorStarted(name="s", pid=1, processes=1), "supervisor s runs 1 process"),
        (events.SupervisorStarted(name="s", pid=1, processes=2), "supervisor s runs 2 processes"),
        (events.JobsCleared(count=1, status="failed"), "cleared 1 failed job"),
        (events.JobsCleared(count=2, status="failed"), "cleared 2 failed jobs"),
        (
            events.JobsSettled(count=1, promoted=2, milliseconds=1.0),
            "settled 1 job in 1.0 ms, 2 blocked jobs promoted",
        ),
        (
            events.LeaseLost(seconds=1.0, threads=1),
            "lease lost after 1 s without a heartbeat: async tasks are cancelled, 1 thread still running",
        ),
    ],
    ids=repr,
)
def test_a_line_has_the_singular_and_the_plural(event: events.Event, line: str) -> None:
    assert event.message() == line


def test_no_text_of_an_event_keeps_a_bracket() -> None:
    for kind in vars(events).values():
        if isinstance(kind, type) and issubclass(kind, events.Event) and "[" in kind.text:
            fields = dict.fromkeys(("count", "jobs", "running", "released", "processes", "promoted"), 1)
            line = kind(**fields, done=1, failed=1, discarded=0, threads=1).format_text()
            assert "[" not in line, line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (10.4, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3600, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (86400, "1 d 0 h"),
        (1_000_000_000, "11,574 d 1 h"),
    ],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_counts_and_rates() -> None:
    assert [counted(count, "task") for count in (0, 1, 1000)] == ["0 tasks", "1 task", "1,000 tasks"]
    assert counted(2, "process", "processes") == "2 processes"
    assert [rounded_rate(count, 3) for count in (0, 1, 29, 31, 1000)] == [0, 0.3, 9.7, 10, 333]
    assert rounded_rate(5, 0) == 0


def test_similar_names_are_suggested() -> None:
    assert suggest("mial", ["mail", "default"]) == "did you mean 'mail'?"
    assert suggest("mial", ["mail", "mails", "default"], most=3) == "did you mean 'mail' or 'mails'?"
    assert suggest("reports", {"mail"}) is None
