"""Starts an example project with all that belongs to it: `python examples/start.py shop`, or `chat`.

PORT in the environment names another port than 8000. Ctrl-C ends everything.

    start.py      this: which programs a project needs     shop/    a plain Django project
    together.py   runs them side by side                   chat/    an ASGI project
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path

from together import Together

HOST = "127.0.0.1"
HERE = Path(__file__).resolve().parent
#: The make target of each project.
TARGETS = {"shop": "example-django", "chat": "example-asgi"}
#: What runs the shop's tasks.
WORKER = ["manage.py", "steady_queue"]


def programs(project: str, port: int) -> dict[str, list[str]]:
    """What a project runs: the shop a web server and a worker, the chat one server that is both."""
    if project == "shop":
        return {"web server": ["manage.py", "runserver", "--noreload", f"{HOST}:{port}"], "worker": WORKER}
    # A page that is still open when the server stops may show its answer to the end.
    server = ["-m", "uvicorn", "asgi:application", "--host", HOST, "--port", str(port)]
    return {"web server": [*server, "--timeout-graceful-shutdown", "20"]}


def main() -> int:
    if sys.argv[1:] not in ([name] for name in TARGETS):
        print(f"Which one? python {sys.argv[0]} {'|'.join(TARGETS)}", file=sys.stderr)
        return 2
    (project,) = sys.argv[1:]
    given = os.environ.get("PORT") or "8000"
    problem = problem_of(given)
    if problem:
        print(f"{problem} Name another one: make {TARGETS[project]} PORT=8765", file=sys.stderr)
        return 1
    port = int(given)
    together = Together(HERE / project)
    if not together.first(["manage.py", "migrate", "--verbosity", "0"]):
        return 1
    os.environ["DJANGO_RUNSERVER_HIDE_WARNING"] = "true"  # it is an example, and says so
    return together.run(
        programs(project, port),
        is_up=lambda: answers(port),
        when_up=lambda: print(f"\nOpen http://{HOST}:{port}/ in a browser. Ctrl-C ends everything.\n", flush=True),
    )


def problem_of(port: str) -> str | None:
    """Why no server can listen there."""
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        return f"{port} is no port."
    with socket.socket() as probe:
        # As servers do: a port whose last connections are just closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, int(port)))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"Port {port} is taken."
            return f"Port {port} cannot be used: {error.strerror}."
    return None


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
