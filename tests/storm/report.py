"""The table of storms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.storm.worker_program import LEASE_SECONDS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from tests.storm.checker import Findings
    from tests.storm.driver import Storm


def row(storm: Storm, findings: Findings) -> dict[str, str]:
    """One storm, by the columns of the table."""
    lives = storm.lives
    return {
        "database": storm.plan.alias,
        "seed": str(storm.plan.seed),
        "seconds": f"{storm.plan.seconds:g}",
        "tasks": str(findings.enqueued),
        "ended": str(findings.finished + sum(findings.failed.values())),
        "finished": str(findings.finished),
        "failed": _sums(findings.failed),
        "begun again": _sums(findings.rerun),
        "kills": str(sum(life.killed is not None for life in lives)),
        "terms": str(sum(life.terminated is not None and life.terminated < storm.closed for life in lives)),
        "freezes": str(sum(to - since >= LEASE_SECONDS for life in lives for since, to in life.freezes)),
        "exited with 75": str(sum(life.code == 75 for life in lives)),
        "ran on": f"{findings.ran_on:.2f} s",
        "reported": f"{findings.reported:.2f} s",
        "stop": f"{findings.stop:.2f} s",
        "at once": ", ".join(f"{most} of {limit}" for limit, most in sorted(findings.at_once.items())),
        "violations": str(len(findings.violations)),
    }


def table(rows: Sequence[dict[str, str]]) -> str:
    """The storms one below the other."""
    columns = list(rows[0])
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
    lines = ["  ".join(name.ljust(widths[name]) for name in columns)]
    lines += ["  ".join(row[name].ljust(widths[name]) for name in columns) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _sums(counted: Counter[str]) -> str:
    total = sum(counted.values())
    causes = ", ".join(
        f"{name.removeprefix('Process').removesuffix('Error')} {n}" for name, n in sorted(counted.items())
    )
    return f"{total} ({causes})" if total else "0"
