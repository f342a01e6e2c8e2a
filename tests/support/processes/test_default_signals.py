"""Tests and what they start find the default dispositions of signals, whatever the parent of the run has ignored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.scripts import REPOSITORY

#: Runs a command with ignored signals: nohup ignores HUP, a script INT and QUIT for its background jobs.
CARELESS = """
import os, signal, sys
for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "CHLD"):
    signal.signal(signal.Signals["SIG" + name], signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP, signal.SIGINT, signal.SIGALRM])
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
#: The two tests that are run again.
BOTH = "ignores_and_blocks_nothing or sent_to_it"


def masks(status: str) -> dict[str, set[int]]:
    """The signals that a process ignores and blocks, out of its status file; 32 and above are the C library's."""
    lines = (line.split() for line in status.splitlines() if line.startswith(("SigIgn:", "SigBlk:")))
    return {name: {at + 1 for at in range(31) if int(mask, 16) >> at & 1} for name, mask in lines}


def test_a_program_started_by_a_test_ignores_and_blocks_nothing() -> None:
    started = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True)
    assert masks(started.stdout) == {"SigIgn:": set(), "SigBlk:": set()}


def test_a_test_is_interrupted_by_a_signal_that_is_sent_to_it() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert masks(Path("/proc/self/status").read_text()) == {
        "SigIgn:": {signal.SIGPIPE, signal.SIGXFSZ},
        "SigBlk:": set(),
    }


@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["alone", "shared out"])
def test_both_hold_in_a_run_whose_parent_has_ignored_and_blocked_signals(processes: tuple[str, ...]) -> None:
    arguments = ["-m", "pytest", "-q", "--databases=", *processes, "-k", BOTH, os.path.relpath(__file__, REPOSITORY)]
    # It is no part of this run: neither of its counts nor of its distribution of tests.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("STEADY_QUEUE_", "PYTEST_"))}
    run = subprocess.run(
        [sys.executable, "-c", CARELESS, *arguments],
        cwd=REPOSITORY,
        env=inherited,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout
