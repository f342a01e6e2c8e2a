"""The recording of a terminal in docs/guides/running.md is what the command shows on a real one."""

from __future__ import annotations

import re
import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.docs.helpers import EXAMPLES, environment, python
from tests.docs.pages import page
from tests.support.processes.terminals import on_a_terminal, render

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.processes.terminals import Screen

MANAGE = EXAMPLES / "bakery" / "manage.py"
ENQUEUE = "from kitchen.tasks import taste\nfor loaf in range(1, 9): taste.enqueue(loaf)"
#: Wider than any line, so that the terminal wraps none.
COLUMNS = 500
WAIT_SECONDS = 60

#: What differs between two runs.
VARIABLE = [
    (r"^\d\d:\d\d:\d\d", "TIME"),
    (r"\S+:\d+:[0-9a-f]{8}\b", "NAME"),
    (r"process \d+", "process PID"),
    (r"Steady Queue \d\S*", "Steady Queue VERSION"),
    (r"(after|in) (\d+ min )?\d+(\.\d)? s\b", "in SECONDS"),
    (r"[\d.]+(/s| per second)", "RATE"),
]


#: The events LoopBlocked and TasksCounted, which only a run on a busy machine has.
OF_BUSY_MACHINES = re.compile(r"the event loop is blocked for|\d+ tasks? done, .* per second\), \d+ running")


def normalise(line: str) -> str:
    for pattern, text in VARIABLE:
        line = re.sub(pattern, text, line)
    return line


def wait(screen: Screen, text: str) -> str:
    """Wait until a status line with this text was drawn; return the output up to its end."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := re.search(rf"{re.escape(text)}[^\r\n]*\r", re.sub(r"\x1b\[[\d;]*m", "", screen.text))):
        assert time.monotonic() < deadline, screen.text
        time.sleep(0.05)
    return found.string[: found.end()]


@pytest.mark.timeout(150)
def test_the_recording_is_what_a_terminal_shows(tmp_path: Path) -> None:
    database = str(tmp_path / "bakery.sqlite3")
    for words in (["migrate", "-v", "0"], ["shell", "-v", "0", "-c", ENQUEUE]):
        done = python(MANAGE, *words, directory=tmp_path, BAKERY_DATABASE=database)
        assert done.returncode == 0, done.stderr
    command = [sys.executable, str(MANAGE), "steady_queue"]
    environ = environment(tmp_path, BAKERY_DATABASE=database, TERM="xterm")
    with on_a_terminal(command, cwd=tmp_path, environ=environ, columns=COLUMNS) as (process, screen):
        before = wait(screen, "2 processes · 8 done · 0 failed · 0 running · 0 waiting")
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 0
    after = re.sub(r"\x1b\[[\d;]*m", "", screen.text)[len(before) :]
    lines = [*render(before, COLUMNS), "^C", *render(after, COLUMNS)]
    shown = [normalise(line) for line in lines if line and not OF_BUSY_MACHINES.search(line)]

    (recording,) = [block for block in page("docs/guides/running.md").blocks("text") if "manage.py" in block]
    expected = [normalise(line) for line in recording.splitlines()[1:]]
    # The lines of several processes have no order, but the banner, the status, Ctrl-C and the totals do.
    assert sorted(shown) == sorted(expected), "\n".join(shown)
    for part in (slice(0, 6), slice(-1, None)):
        assert shown[part] == expected[part]
    assert shown.index("^C") == expected.index("^C")
    assert shown[shown.index("^C") - 1] == expected[expected.index("^C") - 1]
