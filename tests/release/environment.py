"""An empty virtual environment, into which a test installs the wheel as a user does, and a project in it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

#: Seconds: longer than an installation or a command takes, also on a busy machine.
TIMEOUT_SECONDS = 600.0


def find_wheel() -> Path:
    """The wheel that `make dist` has built."""
    (wheel,) = (ROOT / os.environ.get("STEADY_QUEUE_DIST", "dist")).glob("*.whl")
    return wheel


def find_python(which: str) -> str:
    """The oldest or the newest supported Python of this machine."""
    found = subprocess.run([str(ROOT / ".ci" / "python"), which], check=True, capture_output=True, text=True)
    return found.stdout.strip()


@dataclass(frozen=True)
class Environment:
    """A directory with a virtual environment `.venv`, in which commands run as in an activated one."""

    directory: Path

    @staticmethod
    def create(directory: Path, python: str, constraint: str = "") -> Environment:
        """Create it. The constraint, such as `Django~=5.2.0`, applies to everything that pip installs into it."""
        subprocess.run([python, "-m", "venv", str(directory / ".venv")], check=True, timeout=TIMEOUT_SECONDS)
        (directory / "constraints.txt").write_text(constraint)
        return Environment(directory)

    def run(self, command: str, *, status: int = 0) -> str:
        """What a command prints, which ends with this status."""
        ran = subprocess.run(
            command,
            shell=True,
            cwd=self.directory,
            env=self._variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        assert ran.returncode == status, f"{command}: {ran.returncode}: {ran.stdout}"
        return ran.stdout

    def install(self, *requirements: str) -> None:
        self.run(shlex.join(["pip", "install", "-q", "--disable-pip-version-check", *requirements]))

    def append(self, path: str, text: str) -> None:
        with (self.directory / path).open("a") as file:
            file.write(f"\n{text}\n")

    def run_until_printed(self, command: list[str], text: str) -> int:
        """Start a command, send TERM when it has printed the text, and return its exit status."""
        printed = self.directory / "printed"
        with printed.open("w") as file:
            process = subprocess.Popen(
                [str(self.directory / ".venv" / "bin" / "python"), *command],
                cwd=self.directory,
                env=self._variables() | {"PYTHONUNBUFFERED": "1"},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while text not in printed.read_text():
                assert process.poll() is None, printed.read_text()
                assert time.monotonic() < deadline, printed.read_text()
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            return process.wait(TIMEOUT_SECONDS)
        finally:
            process.kill()
            process.wait()

    def _variables(self) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DJANGO_", "STEADY_QUEUE_", "PYTEST_", "PYTHON"))
        }
        path = f"{self.directory / '.venv' / 'bin'}:{os.environ['PATH']}"
        return inherited | {"PATH": path, "PIP_CONSTRAINT": str(self.directory / "constraints.txt")}
