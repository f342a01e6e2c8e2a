"""What limits, recurring tasks and queues cost: `python -m benchmarks.semantics`.

Each part compares its figures with what the machine does in the same run, or with a fixed bar. The status is 1 when
a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING

from benchmarks.figures import Figures
from benchmarks.hands import HandError
from benchmarks.servers import DATABASES, databases
from tests.support.servers import ServerMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Each is a module with `measure(alias, figures, *, quick)`.
PARTS = ("claims", "limits", "recurring")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure everything and return the exit status."""
    options = _options(arguments)
    begun, load = time.monotonic(), os.getloadavg()[0]
    figures = Figures()
    try:
        with databases(options.databases):
            for alias in options.databases:
                for part in options.only:
                    _measure(part, alias, figures, quick=options.quick)
    except ServerMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    print(f"\nPython {platform.python_version()}, {time.monotonic() - begun:.0f} s.", end=" ")
    print(f"Load of the machine before: {load:.1f}.")
    if options.quick:
        print("A quick run: it shows that everything works, its figures mean little.")
    for figure in figures.missed:
        print(f"Bar missed: {figure.section}: {figure}")
    return 1 if figures.missed or figures.problems else 0


def _measure(part: str, alias: str, figures: Figures, *, quick: bool) -> None:
    import steady_queue

    steady_queue.database = alias
    try:
        # Only now: they may import what needs Django set up.
        import_module(f"benchmarks.{part}").measure(alias, figures, quick=quick)
    except (HandError, TimeoutError) as error:
        figures.wrong([f"{part} on {alias}: {error}"])


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.semantics",
        description="Measure claims, limits and recurring tasks, beside their bars.",
    )
    parser.add_argument(
        "--only",
        type=lambda text: _some(text, PARTS),
        default=list(PARTS),
        metavar="PARTS",
        help=f"some of {','.join(PARTS)} (default: all)",
    )
    parser.add_argument(
        "--databases",
        type=lambda text: _some(text, DATABASES),
        default=["postgres"],
        metavar="DATABASES",
        help=f"some of {','.join(DATABASES)} (default: postgres)",
    )
    parser.add_argument("--quick", action="store_true", help="far fewer rows: to see that it works")
    return parser.parse_args(arguments)


def _some(text: str, known: Sequence[str]) -> list[str]:
    chosen = text.split(",")
    if unknown := set(chosen) - set(known):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(known)}")
    return [name for name in known if name in chosen]


if __name__ == "__main__":
    sys.exit(main())
