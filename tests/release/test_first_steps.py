"""The README's first steps work as they are written: five commands and two files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.helpers import environment
from tests.release.first_steps import RESULT, read_first_steps

# Longer than five processes of Django take to start on a busy machine.
pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]


def test_five_commands_lead_to_the_first_result(tmp_path: Path) -> None:
    steps = read_first_steps()
    install, create, *others = steps.commands
    assert len(steps.commands) == 5
    assert (install, create) == ("pip install steady-queue-aio", "django-admin startproject project .")

    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    printed = ""
    for number, command in enumerate([create, *others]):
        ran = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment(tmp_path, PATH=path),
            capture_output=True,
            text=True,
            timeout=100,
        )
        printed = ran.stdout + ran.stderr
        assert ran.returncode == 0, f"{command}: {printed}"
        if number == 0:
            steps.write_files(tmp_path)
    assert RESULT in printed
