"""What the machine offers: installed programs, free ports, an account that is not root's."""

import os
import pwd
import random
import shutil
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

# Servers live outside an ordinary user's PATH.
SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin")

#: Where servers of the tests may listen, but for the ports that the kernel gives to outgoing connections.
PORTS = range(15000, 2**16)
#: The first and the last port that the kernel gives to outgoing connections.
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


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


class PortClaim:
    """A loopback port that no process listens on; while it is held, no other test takes it, even if its server is down.

    The lock is an abstract unix socket: it belongs to the same network namespace as the port, has no file, and is gone
    with its process.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._lock = socket.socket(socket.AF_UNIX)
        try:
            self._lock.bind(f"\0steady-queue-tests-port-{port}")
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Release the port for other tests."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


def claim_port() -> PortClaim:
    """A port for a server. A program that knows nothing of claims may still be faster: if so, claim another one."""
    candidates = _candidates()
    # The system's randomness: a seeded one would give the same port to every test run that starts now.
    for port in random.SystemRandom().sample(candidates, min(200, len(candidates))):
        try:
            return PortClaim(port)
        except OSError:
            continue
    raise OSError("no free port")


def free_port() -> int:
    """A loopback port that no process listens on, for tests that try to connect to it."""
    with claim_port() as claim:
        return claim.port


def _candidates() -> Sequence[int]:
    """Ports outside the range the kernel takes outgoing ones from.

    Inside it any outgoing connection may take the port of a server that is about to start or to start again, and a
    client that keeps calling the port of a server that is down is, sooner or later, given the very same port as its
    own, and talks to itself.
    """
    try:
        first, last = map(int, OUTGOING.read_text().split())
    except (OSError, ValueError):
        first, last = 32768, 60999
    outside = [port for port in PORTS if not first <= port <= last]
    return outside if len(outside) > 500 else PORTS


def _has_account(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
