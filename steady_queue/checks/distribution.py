"""System check: whether the other distribution with the import name `steady_queue` is installed as well."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

from django.core.checks import Error

from steady_queue.distribution import NAME, OTHER_NAME, REINSTALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.core.checks import CheckMessage


def check_distribution() -> Iterator[CheckMessage]:
    """An error if `steady-queue` is installed in another directory of the path.

    In the same directory its files would be mixed with those of this package: then the app refuses to be loaded.
    """
    version = find_other_version()
    if version is not None:
        yield Error(
            f"The distribution {OTHER_NAME} {version} is installed as well as {NAME}. It is another implementation "
            "with the same import name, steady_queue: the order of sys.path decides which of them is imported.",
            hint=f"{REINSTALL[0].upper()}{REINSTALL[1:]}.",
            id="steady_queue.E012",
        )


def find_other_version() -> str | None:
    """The version of the other distribution, or None where it is not installed."""
    try:
        other = metadata.distribution(OTHER_NAME)
    except metadata.PackageNotFoundError:
        return None
    # An editable installation from the time when this package had that name has metadata and no package.
    has_package = other.locate_file("steady_queue").is_dir()  # type: ignore[attr-defined]
    return other.version if has_package else None
