"""A mail server that keeps what it receives."""

from __future__ import annotations

import email
import socketserver
import threading
from contextlib import contextmanager
from email.message import EmailMessage
from email.policy import default
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class MailServer(socketserver.ThreadingTCPServer):
    """As much SMTP as smtplib speaks without extensions."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.received: list[EmailMessage] = []

    @property
    def environment(self) -> dict[str, str]:
        host, port = self.server_address[:2]
        return {"SMTP_HOST": str(host), "SMTP_PORT": str(port)}


class _Session(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self.answer("220 ready")
        while command := self.rfile.readline().strip().upper():
            if command == b"DATA":
                self.answer("354 send it")
                self.server.received.append(self.read_message())
            self.answer("221 bye" if command == b"QUIT" else "250 ok")

    def read_message(self) -> EmailMessage:
        lines = iter(self.rfile.readline, b".\r\n")
        message = email.message_from_bytes(b"".join(line.removeprefix(b".") for line in lines), policy=default)
        assert isinstance(message, EmailMessage)
        return message

    def answer(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mail_server() -> Iterator[MailServer]:
    with MailServer() as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield server
        finally:
            server.shutdown()
            serving.join()
