"""Measures what claims, limits and recurring tasks cost with many rows: `python -m benchmarks.scale`."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from benchmarks.support.options import names
from benchmarks.support.processes import BenchmarkError
from benchmarks.support.report import Figures
from benchmarks.support.servers import DATABASES, databases
from tests.support.servers import ServerMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Each part is a module with the function `measure(alias, figures, *, quick)`.
PARTS = {
    "claims": "claims with many rows, many queues and paused queues",
    "limits": "bulk enqueues of limited tasks, and the release of a slot that many tasks wait for",
    "recurring": "thousands of recurring tasks that are due in the same minute",
}
DESCRIPTION = """\
Measure what claims, limits and recurring tasks cost with many rows.

Each part compares its figures with what the machine achieves in the same run, or with
a fixed target. The exit status is 1 if a target was missed.

parts:
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the parts and return the exit status."""
    options = _parse_options(arguments)
    figures = Figures()
    try:
        with databases(options.databases):
            for alias in options.databases:
                for part in options.only:
                    _measure(part, alias, figures, quick=options.quick)
    except ServerMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    figures.print_summary()
    if options.quick:
        print("This was a quick run: it shows that the benchmark works, its figures mean little.")
    return figures.exit_status


def _measure(part: str, alias: str, figures: Figures, *, quick: bool) -> None:
    import steady_queue

    steady_queue.database = alias
    try:
        # Imported here, because the modules need Django to be set up.
        import_module(f"benchmarks.scale.{part}").measure(alias, figures, quick=quick)
    except (BenchmarkError, TimeoutError) as error:
        figures.add_problems([f"{part} on {alias}: {error}"])


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description=DESCRIPTION + "\n".join(f"  {name:<11}{text}" for name, text in PARTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        type=names(list(PARTS)),
        default=list(PARTS),
        metavar="PARTS",
        help="measure only these parts, separated by commas (default: all)",
    )
    parser.add_argument(
        "--databases",
        type=names(DATABASES),
        default=["postgres"],
        metavar="DATABASES",
        help=f"some of {','.join(DATABASES)}, separated by commas (default: postgres)",
    )
    parser.add_argument("--quick", action="store_true", help="far fewer rows, to check that the benchmark works")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
