"""Mail as tasks: stored with the transaction, sent by the worker to a real mail server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import django
import pytest

from tests.recipes.mail_server import mail_server
from tests.recipes.projects import Project

if TYPE_CHECKING:
    from pathlib import Path

# On a busy machine each of the interpreters needs seconds to start.
pytestmark = [pytest.mark.smoke, pytest.mark.timeout(180)]

#: The differences of Django before 6.1 that the recipe names.
OLDER_SETTINGS = """
EMAIL_BACKEND = "shop.mail.QueueBackend"
EMAIL_HOST, EMAIL_PORT, EMAIL_TIMEOUT = os.environ["SMTP_HOST"], int(os.environ["SMTP_PORT"]), 30
"""
OLDER_SENDING = """from django.core.mail import get_connection
    get_connection("django.core.mail.backends.smtp.EmailBackend").send_messages([message])"""
SEND = """
from django.core.mail import EmailMessage, EmailMultiAlternatives, send_mail
from django.db import transaction
from django.utils.translation import gettext_lazy

try:
    with transaction.atomic():
        send_mail("Lost", "rolled back", "shop@example.com", ["ada@example.com"])
        raise ValueError
except ValueError:
    pass
with transaction.atomic():
    message = EmailMultiAlternatives(
        gettext_lazy("Receipt"), "Thänks", "shop@example.com", ["ada@example.com"], cc=["bob@example.com"],
        bcc=["archive@example.com"], reply_to=["help@example.com"], headers={"X-Order": "7"},
    )
    message.attach_alternative("<p>Thänks</p>", "text/html")
    message.attach("receipt.pdf", bytes(range(256)), "application/pdf")
    assert message.send() == 1
page = EmailMessage("Page", "<p>only</p>", "shop@example.com", ["ada@example.com"])
page.content_subtype = "html"
page.send()
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path).create()
    project.add_recipe("Mail")
    if django.VERSION < (6, 1):
        project.append("project/settings.py", OLDER_SETTINGS)
        file = tmp_path / "shop" / "mail.py"
        file.write_text(file.read_text().replace("message.send(using=using)", OLDER_SENDING))
    return project


def test_a_mail_is_stored_with_its_transaction_and_sent_by_the_worker(project: Project) -> None:
    with mail_server() as server:
        project.manage("migrate", "steady_queue", **server.environment)
        project.run_script(SEND, **server.environment)
        assert server.received == []
        worker = project.drain(**server.environment)

    assert len(server.received) == 2, worker.stderr
    receipt, page = sorted(server.received, key=lambda message: message["Subject"], reverse=True)
    assert (receipt["Subject"], receipt["Cc"], receipt["Reply-To"]) == (
        "Receipt",
        "bob@example.com",
        "help@example.com",
    )
    assert (receipt["X-Order"], receipt["Bcc"]) == ("7", None)
    assert receipt["Message-ID"]
    body, html = receipt.get_body(("plain",)), receipt.get_body(("html",))
    assert body is not None
    assert html is not None
    assert (body.get_content().strip(), html.get_content().strip()) == ("Thänks", "<p>Thänks</p>")
    (attachment,) = receipt.iter_attachments()
    assert (attachment.get_filename(), attachment.get_content()) == ("receipt.pdf", bytes(range(256)))
    assert page.get_content_type() == "text/html"
