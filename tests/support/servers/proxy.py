"""A TCP proxy before a database server, which loses a chosen request or answer and cuts the connection."""

from __future__ import annotations

import errno
import re
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from tests.support.servers.host import claim_port

if TYPE_CHECKING:
    from tests.support.servers.host import PortClaim

#: The end of a transaction, on every server.
COMMIT = re.compile(rb"(?<!auto)commit(?!ted)", re.IGNORECASE)


@dataclass
class Loss:
    """What is to be lost, once: the request in which the pattern is found, or the answer to it.

    `after`: only on a connection on which this was found before.
    """

    pattern: re.Pattern[bytes]
    of_answer: bool
    then_refuse: bool
    after: re.Pattern[bytes] | None = None


class Address(Protocol):
    """Where a server listens."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class Link:
    """A client's connection and the one to the server behind it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.is_muted = False
        self.is_marked = False
        self.is_silent = False

    def cut(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Forwards bytes, except those that a test lets it lose."""

    def __init__(self, server: Address) -> None:
        self._address = (server.host, server.port)
        self.host = "127.0.0.1"
        self._claim, self._listener = self._listen()
        self.port = self._claim.port
        self._loss: Loss | None = None
        self._links: list[Link] = []
        self._threads: list[threading.Thread] = []
        self.has_lost = threading.Event()
        #: What clients have sent so far, each a statement or a part of one.
        self.requests = 0

    def lose_request(
        self, pattern: re.Pattern[bytes], *, then_refuse: bool = False, after: re.Pattern[bytes] | None = None
    ) -> None:
        """The next request with this pattern never reaches the server."""
        self._loss = Loss(pattern, of_answer=False, then_refuse=then_refuse, after=after)

    def lose_answer(
        self, pattern: re.Pattern[bytes], *, then_refuse: bool = False, after: re.Pattern[bytes] | None = None
    ) -> None:
        """The next request with this pattern is carried out, and its answer never reaches the client."""
        self._loss = Loss(pattern, of_answer=True, then_refuse=then_refuse, after=after)

    def refuse(self) -> None:
        """Take no more connections, as a server that is down."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def go(self) -> None:
        """Refuse, and cut the connections that there are."""
        self.refuse()
        for link in list(self._links):
            link.cut()

    def mute(self) -> None:
        """Let the connections that there are carry nothing any more, without closing them."""
        for link in list(self._links):
            link.is_silent = True

    def come_back(self) -> None:
        """Take connections again."""
        self._listener = socket.create_server((self.host, self.port))
        self._start(self._accept)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *exception: object) -> None:
        self.go()
        for thread in list(self._threads):
            thread.join()
        for link in self._links:
            link.client.close()
            link.server.close()
        self._claim.release()

    def _listen(self) -> tuple[PortClaim, socket.socket]:
        """Listen on a port that stays reserved while connections are refused; on another one, if that is in use."""
        while True:
            claim = claim_port()
            try:
                return claim, socket.create_server((self.host, claim.port))
            except OSError as error:
                claim.release()
                if error.errno != errno.EADDRINUSE:
                    raise

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        listener = self._listener
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            link = Link(client, socket.create_connection(self._address))
            self._links.append(link)
            if listener.fileno() < 0:
                # It was closed meanwhile, and who closed it may not have seen this link.
                link.cut()
            self._start(self._requests, link)
            self._start(self._answers, link)

    def _requests(self, link: Link) -> None:
        with suppress(OSError):
            while data := link.client.recv(1 << 16):
                self.requests += 1
                if link.is_silent:
                    continue
                loss = self._loss
                if loss is not None and loss.after is not None and loss.after.search(data):
                    link.is_marked = True
                if loss is not None and loss.pattern.search(data) and (loss.after is None or link.is_marked):
                    self._loss = None
                    if loss.then_refuse:
                        self.refuse()
                    if not loss.of_answer:
                        self.has_lost.set()
                        break
                    link.is_muted = True
                link.server.sendall(data)
        link.cut()

    def _answers(self, link: Link) -> None:
        with suppress(OSError):
            while data := link.server.recv(1 << 16):
                if link.is_silent:
                    continue
                if link.is_muted:
                    self.has_lost.set()
                    break
                link.client.sendall(data)
        link.cut()
