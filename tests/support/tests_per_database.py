"""A pytest plugin: how many tests passed on each database, as the last line of a run, and no silent gaps in CI.

A test belongs to a database when its parameters or its parametrised id name one, or its class does in `database_name`.
`STEADY_QUEUE_TEST_COUNTS` names a file the line is appended to. Where `CI` is set, a skipped test fails the run, and so
does a database without tests when the run is of the whole suite (`STEADY_QUEUE_FULL=1`).
"""

import os
import platform
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

DATABASES = ("postgres", "mariadb", "sqlite")
NO_DATABASE = "no database"


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.pluginmanager.register(TestCounter(), "tally")


class TestCounter:
    """Follows one run of the tests."""

    def __init__(self) -> None:
        self.passed: dict[str, str] = {}
        self.skipped: set[str] = set()
        # Now, because a test may change the directory or the environment.
        path = os.environ.get("STEADY_QUEUE_TEST_COUNTS")
        self.path = Path(path).absolute() if path else None
        self.in_ci = bool(os.environ.get("CI"))
        self.is_full = os.environ.get("STEADY_QUEUE_FULL") == "1"

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note the test's database where its report will carry it, also out of another process."""
        item.user_properties.append(("database", database_of(item)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a whole module that was skipped."""
        if report.skipped:
            self.skipped.add(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how the test ended."""
        if report.when == "call" and report.passed:
            self.passed[report.nodeid] = str(dict(report.user_properties)["database"])
        # An expected failure is reported as skipped too.
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run that passed with gaps; not in a process that runs a part of it."""
        if hasattr(session.config, "workerinput"):
            return
        if session.exitstatus == pytest.ExitCode.OK and self.gaps():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the gaps and the line, and keep the line; not in a process that runs a part of the tests."""
        if hasattr(terminalreporter.config, "workerinput"):
            return
        for gap in self.gaps():
            terminalreporter.write_line(f"CI: {gap}", red=True)
        terminalreporter.write_line(self.line())
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(self.line() + "\n")

    def counts(self) -> Counter[str]:
        """Passed tests per database."""
        return Counter(self.passed.values())

    def gaps(self) -> list[str]:
        """What CI does not forgive."""
        if not self.in_ci:
            return []
        gaps = [f"{test} was skipped" for test in sorted(self.skipped)]
        if self.is_full:
            counts = self.counts()
            gaps += [f"no test ran on {database}" for database in DATABASES if not counts[database]]
        return gaps

    def line(self) -> str:
        """The tally in one line, aligned with the one of the other environment."""
        counts = self.counts()
        numbers = ", ".join(f"{name} {counts[name]:>4}" for name in (*DATABASES, NO_DATABASE))
        return f"{environment():<48} {numbers}"


def database_of(item: pytest.Item) -> str:
    """The database a test runs on."""
    callspec = getattr(item, "callspec", None)
    named = [*callspec.params.values(), *callspec.id.split("-")] if callspec else []
    named.append(getattr(getattr(item, "cls", None), "database_name", None))
    return next((name for name in named if isinstance(name, str) and name in DATABASES), NO_DATABASE)


def environment() -> str:
    """What the tests ran with."""
    import django

    tasks = "django.tasks" if find_spec("django.tasks") else "django_tasks"
    return f"Django {django.get_version()} with {tasks}, Python {platform.python_version()}:"
