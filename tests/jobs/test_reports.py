"""Progress and logs as they are stored and read, also if another program has written the columns."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from steady_queue import LogLine, Progress, SteadyQueueResult
from steady_queue.jobs.running.reports import dump_line, dump_progress, load_log, load_progress
from tests.shop.tasks import greet
from tests.support.databases.tables import query

AT = datetime(2026, 11, 18, 12, 30, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize("progress", [Progress(1), Progress(0.5, 2.0, "ä\x00\ud800", AT), Progress(2**62, 0, "", AT)])
def test_a_progress_is_read_as_it_was_written(progress: Progress) -> None:
    text = dump_progress(progress)
    assert text.isascii()
    assert load_progress(text) == progress


@pytest.mark.parametrize(
    ("progress", "fraction"),
    [(Progress(1), None), (Progress(1, 4), 0.25), (Progress(5, 4), 1.0), (Progress(0, 0), 1.0)],
)
def test_the_fraction_is_the_done_part_of_the_total(progress: Progress, fraction: float | None) -> None:
    assert progress.fraction == fraction


def test_lines_that_cannot_be_read_are_ignored() -> None:
    lines = [LogLine('first {"at": 1}', 1, AT), LogLine("second\nof two lines", 2, AT)]
    texts = [dump_line(line) for line in lines]
    for wrong in (
        "",
        "}",
        "[]",
        "{}",
        '{"at": 1, "attempt": 1, "message": "x"}',
        '{"attempt": 1, "message": 5}',
        "[" * 9999,
    ):
        assert load_log("\n".join([texts[0][5:], *texts, wrong])) == lines


def test_no_rest_of_a_line_is_read_as_a_line() -> None:
    text = dump_line(LogLine(dump_line(LogLine("inner", 1, AT)), 1, AT))
    assert [load_log(text[at:]) for at in range(1, len(text))] == [[]] * (len(text) - 1)


@pytest.mark.usually_on("sqlite")
@pytest.mark.parametrize(
    "stored", ["", "nonsense", "[]", "{}", '{"done": "a"}', '{"done": -1}', '{"done": 1, "at": 5}']
)
def test_a_progress_that_cannot_be_read_does_not_hide_the_result(database: str, stored: str) -> None:
    result = greet.enqueue("Ada")
    query(database, "UPDATE steady_queue_job SET progress = %s, log = %s, metadata = '[]'", stored, stored)
    result.refresh()
    assert isinstance(result, SteadyQueueResult)
    assert (result.progress, result.log, result.args) == (None, [], ["Ada"])
    assert "'metadata' of the task cannot be read" in result.errors[0].traceback
    assert "'progress' of the task cannot be read" in result.errors[1].traceback
