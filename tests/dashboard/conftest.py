"""Users of the admin, and clients that are logged in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def users() -> Iterator[Any]:
    """The model of users; its rows, sessions and log entries are deleted after the test."""
    from django.contrib.admin.models import LogEntry
    from django.contrib.sessions.models import Session

    yield get_user_model()
    for model in (LogEntry, Session, get_user_model()):
        model._default_manager.all().delete()


@pytest.fixture
def client_with(users: Any) -> Callable[..., Client]:
    """Returns a client of a staff user with these permissions, such as "view_job"."""
    from django.contrib.auth.models import Permission

    def log_in(*permissions: str, **fields: Any) -> Client:
        user = users.objects.create_user(f"staff {users.objects.count()}", is_staff=True, **fields)
        found = Permission.objects.filter(content_type__app_label="steady_queue", codename__in=permissions)
        assert {permission.codename for permission in found} == set(permissions)
        user.user_permissions.set(found)
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def superuser(users: Any) -> Client:
    """A client of a superuser."""
    client = Client()
    client.force_login(users.objects.create_superuser("Ada"))
    return client
