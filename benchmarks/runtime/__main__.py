"""Measures how fast a worker process runs tasks, and what it costs: `python -m benchmarks.runtime`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.support.options import names, positive
from benchmarks.support.processes import BenchmarkError
from benchmarks.support.report import Figures
from benchmarks.support.rounds import Context
from benchmarks.support.servers import DATABASES, databases
from tests.support.servers import ServerMissing

if TYPE_CHECKING:
    from collections.abc import Sequence


class Section(NamedTuple):
    """The function of a section, in a module of this package, and the databases that it needs."""

    module: str
    function: str
    databases: tuple[str, ...]
    help: str


SECTIONS = {
    "throughput": Section("throughput", "measure_postgres", ("postgres",), "no-op tasks per second on PostgreSQL"),
    "logging": Section("task_logging", "measure", ("postgres",), "what Django's log of tasks costs"),
    "latency": Section("latency", "measure", ("postgres",), "from the commit of a job to the start of its task"),
    "waiting": Section("waiting_tasks", "measure", ("postgres",), "ten thousand sleeping tasks in one process"),
    "idle": Section("idle", "measure", (), "the statements and the CPU time of an idle process"),
    "progress": Section("progress", "measure", (), "the statements of a process whose tasks report their progress"),
    "orm": Section("orm", "measure", ("postgres",), "async tasks that use Django's ORM"),
    "databases": Section(
        "throughput", "measure_other_databases", ("mariadb", "sqlite"), "no-op tasks per second on MariaDB and SQLite"
    ),
    "notifications": Section("notifications", "measure", ("postgres",), "what NOTIFY costs the processes that enqueue"),
    "web": Section("web_requests", "measure", ("postgres",), "what an embedded worker costs web requests"),
    "peers": Section("throughput", "measure_peers", ("postgres",), "no-op tasks per second of other queues"),
}
PYTHON_VARIABLE = "STEADY_QUEUE_BENCHMARK_PYTHONS"
DESCRIPTION = """\
Measure how fast a worker process runs tasks, and what it costs.

Each worker has a process of its own, on private, durable servers. The systems that
are compared alternate, and the median of the rounds counts. The exit status is 1 if
a target was missed or if a task did not run exactly once.

sections:
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sections and return the exit status."""
    options = _parse_options(arguments)
    figures = Figures()
    needed = {alias for name in options.only for alias in SECTIONS[name].databases}
    try:
        with databases([alias for alias in DATABASES if alias in needed]) as servers:
            context = Context(figures, servers, options.rounds, options.quick, options.python)
            for name in options.only:
                _run_section(name, context)
    except ServerMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps(_as_json(figures), indent=2))
    figures.print_summary(options.rounds)
    print("\n".join(figures.problems) or "Every task ran exactly once, and no invariant was violated.")
    return figures.exit_status


def _run_section(name: str, context: Context) -> None:
    section = SECTIONS[name]
    try:
        # Imported here, because the modules need Django to be set up.
        module = import_module(f"benchmarks.runtime.{section.module}")
        getattr(module, section.function)(context)
    except BenchmarkError as error:
        context.figures.add_problems([f"{name}: {error}"])


def _as_json(figures: Figures) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "figures": [figure.as_json() for figure in figures.all],
        "problems": figures.problems,
    }


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.runtime",
        description=DESCRIPTION + "\n".join(f"  {name:<15}{section.help}" for name, section in SECTIONS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rounds", type=positive, default=5, help="number of rounds of each comparison (default: %(default)s)"
    )
    parser.add_argument(
        "--only",
        type=names(list(SECTIONS)),
        default=list(SECTIONS),
        metavar="SECTIONS",
        help="run only these sections, separated by commas (default: all)",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the tasks, to check that the benchmark works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to this file")
    parser.add_argument(
        "--python",
        type=_parse_python,
        action="append",
        default=[_parse_python(pair) for pair in os.environ.get(PYTHON_VARIABLE, "").split(",") if pair],
        metavar="PEER=PATH",
        help="the Python interpreter of a peer that is installed in another environment; can be repeated;"
        f" the environment variable {PYTHON_VARIABLE} takes several, separated by commas",
    )
    options = parser.parse_args(arguments)
    options.python = dict(options.python)
    return options


def _parse_python(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not PEER=PATH")
    return name, path


if __name__ == "__main__":
    sys.exit(main())
