"""Starts an example project with all its processes: `python examples/start.py shop`, or `chat`.

The environment variable PORT sets the port (default: 8000). Ctrl-C stops everything.

    start.py           this script: the processes of each project    shop/    a plain Django project
    process_group.py   starts and stops them together                chat/    an ASGI project
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import sys
from pathlib import Path

from process_group import ProcessGroup

HOST = "127.0.0.1"
HERE = Path(__file__).resolve().parent
#: The make target of each project.
TARGETS = {"shop": "example-django", "chat": "example-asgi"}
#: The command that runs the shop's tasks.
WORKER = ["manage.py", "steady_queue"]
#: The command that creates the tables, before the processes start; that of the shop also creates a user.
PREPARE = {"shop": ["manage.py", "prepare_demo"], "chat": ["manage.py", "migrate", "--verbosity", "0"]}
DASHBOARD = """\
The dashboard is at http://{host}:{port}/admin/steady_queue/overview/
Log in as demo with the password {password}
"""


def programs(project: str, port: int) -> dict[str, list[str]]:
    """The processes of a project: a web server and a worker for the shop; one server that is both for the chat."""
    if project == "shop":
        return {"web server": ["manage.py", "runserver", "--noreload", f"{HOST}:{port}"], "worker": WORKER}
    # Time for open pages to receive the rest of their answers when the server stops.
    server = ["-m", "uvicorn", "asgi:application", "--host", HOST, "--port", str(port)]
    return {"web server": [*server, "--timeout-graceful-shutdown", "20"]}


def main() -> int:
    if sys.argv[1:] not in ([name] for name in TARGETS):
        print(f"usage: python {sys.argv[0]} {'|'.join(TARGETS)}", file=sys.stderr)
        return 2
    (project,) = sys.argv[1:]
    given = os.environ.get("PORT") or "8000"
    problem = problem_of(given)
    if problem:
        print(f"{problem} Choose another one: make {TARGETS[project]} PORT=8765", file=sys.stderr)
        return 1
    port = int(given)
    process_group = ProcessGroup(HERE / project)
    password = os.environ["DEMO_PASSWORD"] = secrets.token_urlsafe(9)  # a new one each time
    if not process_group.run_first(PREPARE[project]):
        return 1
    del os.environ["DEMO_PASSWORD"]
    os.environ["DJANGO_RUNSERVER_HIDE_WARNING"] = "true"  # an example may use the development server
    text = f"\nOpen http://{HOST}:{port}/ in a browser. Ctrl-C stops everything.\n"
    if project == "shop":
        text += DASHBOARD.format(host=HOST, port=port, password=password)
    return process_group.run(
        programs(project, port), is_up=lambda: answers(port), when_up=lambda: print(text, flush=True)
    )


def problem_of(port: str) -> str | None:
    """Why a server cannot listen on this port; None if it can."""
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        return f"{port} is not a port number."
    with socket.socket() as probe:
        # As servers do: a port whose last connections are closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, int(port)))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"Port {port} is already in use."
            return f"Port {port} cannot be used: {error.strerror}."
    return None


def answers(port: int) -> bool:
    """Whether a server listens on this port."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
