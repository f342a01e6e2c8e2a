"""The checker itself: it finds every violation, and accepts what is allowed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.storm.attempt_log import Attempt
from tests.storm.checker import Checker
from tests.storm.job_records import Record
from tests.storm.workers import WorkerLife

if TYPE_CHECKING:
    from pathlib import Path

    from tests.storm.checker import Findings

FINISHED = Record("job", 5.0, None, "", "", pid=1, attempts=1, value="first", key=None, limit=0)
FAILED = Record("job", None, 5.0, "ProcessExitError", "", pid=1, attempts=1, value=None, key=None, limit=0)
PRUNED = replace(FAILED, error="ProcessPrunedError")
RAN = Attempt("job", "first", 1, "async", 1.0, ended=2.0)
STOPPED = Attempt("job", "earlier", 2, "async", 0.1, stopped=0.5)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_text("it started\n")
    return path


def check_job(log: Path, record: Record | None, *attempts: Attempt, **lives: dict[str, Any]) -> Findings:
    """The findings for one job. The processes 1 and 2 were terminated at the end, or have the given faults."""
    well = {"terminated": 50.0, "exited": 51.0, "code": 0}
    processes = [WorkerLife(pid, log, **{**well, **lives.get(name, {})}) for pid, name in ((1, "one"), (2, "two"))]
    return Checker({"job": "waits"}, {"job": record} if record else {}, attempts, processes).check()


KILLED = {"terminated": None, "killed": 3.0, "exited": 3.0, "code": -9}
ASLEEP = {"freezes": [(1.5, 8.0)]}


def test_a_job_that_ran_once_and_finished_is_well(log: Path) -> None:
    findings = check_job(log, FINISHED, RAN)
    assert (findings.violations, findings.finished) == ([], 1)


def test_a_job_may_begin_again_after_it_has_stopped_in_a_process_that_received_a_stop_signal(log: Path) -> None:
    findings = check_job(log, FINISHED, STOPPED, RAN, two={"terminated": 0.2, "exited": 1.2})
    assert (findings.violations, findings.rerun) == ([], {"terminated": 1})


def test_a_job_may_begin_again_after_it_has_stopped_in_a_process_that_was_frozen(log: Path) -> None:
    earlier = replace(STOPPED, began=-4.0)
    findings = check_job(log, FINISHED, earlier, RAN, two={"freezes": [(-3.0, 0.4)]})
    assert (findings.violations, findings.rerun) == ([], {"frozen": 1})


def test_a_job_of_a_killed_process_may_be_reported(log: Path) -> None:
    findings = check_job(log, FAILED, replace(RAN, ended=None), one=KILLED)
    assert (findings.violations, findings.failed) == ([], {"ProcessExitError": 1})


def test_a_job_of_a_frozen_process_may_be_reported_and_stop_when_it_wakes(log: Path) -> None:
    findings = check_job(log, PRUNED, replace(RAN, ended=None, stopped=8.1), one=ASLEEP)
    assert findings.violations == []
    assert findings.ran_on == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("expected", "record", "attempts", "lives"),
    [
        ("is lost", None, [], {}),
        ("has not ended", replace(FINISHED, finished=None), [RAN], {}),
        ("has finished and failed", replace(FINISHED, failed=5.0), [RAN], {}),
        ("ended 0 times", FINISHED, [], {}),
        ("ended 2 times", FINISHED, [replace(RAN, nonce="other", began=0.1, ended=0.2), RAN], {}),
        ("settled by another attempt", FINISHED, [replace(RAN, nonce="other")], {}),
        ("although it had not stopped", FINISHED, [replace(STOPPED, stopped=None), RAN], {"two": KILLED}),
        ("although it had not stopped", FINISHED, [replace(STOPPED, stopped=1.5), RAN], {"two": {"terminated": 0.2}}),
        ("for no reason", FINISHED, [STOPPED, RAN], {}),
        ("with 2 attempts", replace(FINISHED, attempts=2), [RAN], {}),
        ("failed by itself", replace(FAILED, error="ValueError"), [RAN], {"one": KILLED}),
        ("its process was well", FAILED, [RAN], {}),
        ("its process was well", FAILED, [RAN], {"one": {**KILLED, "killed": 6.0, "exited": 6.0}}),
        ("ran on in 1 for 1.50 s", PRUNED, [replace(RAN, ended=9.5)], {"one": ASLEEP}),
        ("exited with 1", FINISHED, [RAN], {"two": {"code": 1}}),
        ("exited with 75", FINISHED, [RAN], {"two": {"terminated": None, "code": 75}}),
        ("took 49.0 s to stop", FINISHED, [RAN], {"two": {"terminated": 2.0}}),
    ],
)
def test_finds(
    log: Path, expected: str, record: Record | None, attempts: list[Attempt], lives: dict[str, dict[str, Any]]
) -> None:
    assert expected in "\n".join(check_job(log, record, *attempts, **lives).violations)


def test_finds_a_limit_that_is_exceeded_but_not_by_one_that_died_before(log: Path) -> None:
    limited = replace(FINISHED, key="key", limit=1)
    other = replace(limited, id="other", value="other", pid=2)
    its = replace(RAN, job="other", nonce="other", pid=2, began=1.5, ended=3.0)
    lives = [WorkerLife(pid, log, terminated=50.0, exited=51.0, code=0) for pid in (1, 2)]
    names = {"job": "waits", "other": "waits"}
    found = Checker(names, {"job": limited, "other": other}, [RAN, its], lives).check()
    assert "2 of the key key ran at once, 1 may" in found.violations[0]

    died = replace(FAILED, key="key", limit=1, failed=1.4)
    lives[0] = WorkerLife(1, log, killed=1.3, exited=1.3, code=-9)
    found = Checker(names, {"job": died, "other": other}, [replace(RAN, ended=None), its], lives).check()
    assert found.violations == []
