"""What all pages of the dashboard have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client

if TYPE_CHECKING:
    from collections.abc import Callable

OVERVIEW = "/admin/steady_queue/overview/"


@pytest.mark.usually_on("sqlite")
def test_the_admin_lists_the_dashboard(database: str, superuser: Client) -> None:
    assert OVERVIEW in superuser.get("/admin/").content.decode()
    assert superuser.get(OVERVIEW).status_code == 200


@pytest.mark.usually_on("sqlite")
def test_a_page_needs_the_permission_to_view_it(database: str, client_with: Callable[..., Client]) -> None:
    assert client_with().get(OVERVIEW).status_code == 403
    assert client_with("view_overview").get(OVERVIEW).status_code == 200
    assert Client().get(OVERVIEW).status_code == 302
