"""The names of the distribution on the package index, and the mixture with the other one.

The distribution `steady-queue` is another implementation with the same import name. If both are installed into one
directory, the files of the later one replace those of the earlier one, and the rest remains: neither works. Nothing is
imported here, because most modules of such a mixture cannot be imported.
"""

from __future__ import annotations

import os

NAME = "steady-queue-aio"
OTHER_NAME = "steady-queue"
REINSTALL = f"run: pip uninstall -y {OTHER_NAME} {NAME}, then: pip install {NAME}"
MIXED = (
    f"the directory of the package steady_queue has files of two distributions, {NAME} and {OTHER_NAME}. They are "
    f"different implementations with the same import name, and neither works in a mixture; {REINSTALL} "
    f"(or: pip install {OTHER_NAME}, if the project uses that one)"
)
#: A module of the other distribution that this one does not have.
_FOREIGN_MODULE = "queue_selector.py"


def is_mixed(directory: str = os.path.dirname(__file__)) -> bool:
    """Whether the files of both distributions are in the package's directory."""
    return os.path.exists(os.path.join(directory, _FOREIGN_MODULE))


def describe_missing_name(module: str, name: str, replacement: str = "") -> str:
    """The error message for a name that only the other distribution has, and that a project imports."""
    if is_mixed():
        return f"{module}.{name} cannot be imported: {MIXED}"
    return (
        f"{module} has no {name!r}: the installed package is {NAME}, and {name!r} belongs to {OTHER_NAME}, another "
        f"implementation with the same import name; "
        + (f"use {replacement}, or " if replacement else "")
        + f"run: pip uninstall -y {NAME}, then: pip install {OTHER_NAME}"
    )
