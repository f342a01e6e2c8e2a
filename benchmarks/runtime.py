"""Whether the runtime keeps its promises of speed, each figure beside its bar: `python -m benchmarks.runtime`.

On private, durable servers, with every worker in a process of its own. Sides take turns, and the median of the rounds
counts. The status is 1 when a bar is missed or when a task did not run exactly once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import Figures
from benchmarks.hands import HandError
from benchmarks.servers import DATABASES, databases
from tests.support.servers import ServerMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The sections in their order: where each is, and the databases that it needs.
SECTIONS = {
    "throughput": ("throughput:on_postgres", ("postgres",)),
    "logging": ("framework_log:section", ("postgres",)),
    "latency": ("latency:section", ("postgres",)),
    "multitude": ("multitude:section", ("postgres",)),
    "idle": ("idle:section", ()),
    "orm": ("orm:section", ("postgres",)),
    "others": ("throughput:elsewhere", ("mariadb", "sqlite")),
    "storm": ("storm:section", ("postgres",)),
    "web": ("web:section", ("postgres",)),
    "peers": ("throughput:peers", ("postgres",)),
}
PYTHON_VARIABLE = "STEADY_QUEUE_BENCHMARK_PYTHONS"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything and return the exit status."""
    options = _options(arguments)
    begun, load = time.monotonic(), os.getloadavg()[0]
    figures = Figures()
    needed = {alias for name in options.only for alias in SECTIONS[name][1]}
    try:
        with databases([alias for alias in DATABASES if alias in needed]) as servers:
            # Not importable before Django is set up.
            from benchmarks.scene import Scene

            scene = Scene(figures, servers, options.rounds, options.quick, options.python)
            for name in options.only:
                module, _, function = SECTIONS[name][0].partition(":")
                try:
                    getattr(import_module(f"benchmarks.{module}"), function)(scene)
                except HandError as error:
                    figures.wrong([f"{name}: {error}"])
    except ServerMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps(_record(figures), indent=2))
    took = time.monotonic() - begun
    print(f"\nMedians of {options.rounds} rounds, Python {platform.python_version()}, {took:.0f} s.", end=" ")
    print(f"Load of the machine before: {load:.1f}.")
    print("\n".join(figures.problems) or "Every task ran exactly once; no invariant broken.")
    for figure in figures.missed:
        print(f"Bar missed: {figure.section}: {figure}")
    return 1 if figures.missed or figures.problems else 0


def _record(figures: Figures) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "figures": [figure.as_json() for figure in figures.all],
        "problems": figures.problems,
    }


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.runtime", description="Measure what the runtime promises, beside its bars."
    )
    parser.add_argument("--rounds", type=_positive, default=5, help="rounds of each race (default: %(default)s)")
    parser.add_argument(
        "--only",
        type=_sections,
        default=list(SECTIONS),
        metavar="SECTIONS",
        help=f"some of {','.join(SECTIONS)} (default: all)",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the tasks: to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here as well")
    parser.add_argument(
        "--python",
        type=_python,
        action="append",
        default=[_python(pair) for pair in os.environ.get(PYTHON_VARIABLE, "").split(",") if pair],
        metavar="PEER=PATH",
        help=f"the interpreter of a peer in another environment; also in {PYTHON_VARIABLE}, with commas between",
    )
    options = parser.parse_args(arguments)
    options.python = dict(options.python)
    return options


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


def _sections(text: str) -> list[str]:
    chosen = text.split(",")
    if unknown := set(chosen) - set(SECTIONS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(SECTIONS)}")
    return [name for name in SECTIONS if name in chosen]


def _python(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not PEER=PATH")
    return name, path


if __name__ == "__main__":
    sys.exit(main())
