"""Transactional tasks are killed at points of their transaction; `make kill-transactional` does it 200 times."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.databases.tables import count

pytestmark = [pytest.mark.only_on("postgres", "mariadb"), pytest.mark.timeout(180)]

RUNS = 12


def test_what_a_killed_transactional_task_wrote_and_its_outcome_agree(database: str) -> None:
    command = [sys.executable, "-m", "tests.kills.program", database, str(RUNS), "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=170)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["wrong"] == []
    assert report["runs"] == RUNS
    assert sum(report["kills"].values()) >= RUNS - 2  # a kill during the commit may come after the end
    assert count(database, "claimedexecution") == 0
