"""The commands in the files for Compose and Kubernetes do what the recipes say."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs.helpers import environment
from tests.recipes.projects import Project, files_of
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from pathlib import Path

#: Longer than a worker needs to start or to stop, also on a busy machine.
WAIT_SECONDS = 100.0


def commands_of(recipe: str, file: str) -> list[list[str]]:
    found = re.findall(r"command: (\[.*?\])", files_of(recipe)[file])
    return [json.loads(command) for command in found]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path).create()


@pytest.mark.timeout(400)  # on a busy machine each of the interpreters needs seconds to start
def test_a_pod_is_checked_started_probed_and_stopped(project: Project) -> None:
    check, work, probe, same_probe = commands_of("Kubernetes", "worker.yaml")
    migrate, _, compose_work = commands_of("Compose", "compose.yaml")
    assert (probe, work) == (same_probe, compose_work)
    assert {command[0] for command in (check, work, probe, migrate)} == {"python"}
    project.run(*migrate[1:3], "steady_queue", *migrate[3:])  # only the tables that are needed, to save time
    project.run(*check[1:])

    with subprocess.Popen(
        [sys.executable, *work[1:]],
        cwd=project.directory,
        env=environment(project.directory),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        try:
            wait_until(lambda: project.attempt(*probe[1:]).returncode == 0, "the probe succeeds", WAIT_SECONDS)
            worker.send_signal(signal.SIGTERM)
            _, log = worker.communicate(timeout=WAIT_SECONDS)
        finally:
            worker.kill()

    assert worker.returncode == 0, log
