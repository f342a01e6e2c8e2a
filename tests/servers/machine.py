"""What the machine offers: installed programs, a free port, an account that is not root's."""

import os
import pwd
import random
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

# Servers live outside an ordinary user's PATH.
SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin")

# Below the range the kernel takes outgoing ports from: a client that keeps calling a port of that range while its
# server is down is, sooner or later, given the very same port as its own, and talks to itself.
PORTS = range(15000, 32000)


class ServerMissing(Exception):
    """Raised when a server's programs are not installed; the message names the Debian packages."""


def programs(*names: str, packages: str, also: Iterable[Path] = ()) -> list[str]:
    """Where the programs are, all in the same directory; looks in the PATH first and in the other directories then."""
    path = [Path(entry) for entry in os.get_exec_path()]
    for directory in (*path, *also, *map(Path, SYSTEM_DIRECTORIES)):
        found = [shutil.which(name, path=str(directory)) for name in names]
        if all(found):
            return [program for program in found if program is not None]
    raise ServerMissing(f"{' and '.join(names)} not found; install with: apt-get install {packages}")


def unprivileged() -> str | None:
    """The account for servers that refuse to run as root; None when the tests do not run as root anyway."""
    if os.getuid() != 0:
        return None
    return next((name for name in ("postgres", "nobody") if _has_account(name)), None)


def free_port() -> int:
    """A loopback port nobody listens on."""
    # The system's randomness: a seeded one would give the same port to every test run that starts now.
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port")


def _has_account(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
