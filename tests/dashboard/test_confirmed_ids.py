"""The ids of confirmed tasks as the text of a field."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest
from django.contrib.messages import get_messages

from steady_queue.dashboard.jobs.confirmed_ids import decode, encode
from tests.support.databases.tables import counts
from tests.support.store.jobs import job
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from django.test import Client

ONE = UUID(int=1)
UNREADABLE = "the form does not say which tasks were confirmed; open it again"


def test_a_text_has_the_ids_that_were_written() -> None:
    for count in (0, 1, 2, 3, 50):
        ids = [uuid4() for _ in range(count)]
        assert decode(encode(ids)) == frozenset(ids)
    assert decode(None) is None


@pytest.mark.parametrize("text", ["é", "a", "abcd", "!!!!", f"!{encode([ONE])}", f" {encode([ONE])}", "=", "\x00"])
def test_a_text_that_was_not_written_here_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=UNREADABLE):
        decode(text)


@pytest.mark.usually_on("sqlite")
def test_a_page_says_that_it_cannot_read_what_was_confirmed(database: str, superuser: Client) -> None:
    SyncStore(database).enqueue(job(queue_name="mail"))
    before = counts(database)
    for path, fields in (
        ("job/action/", {"do": "discard:all", "query": "state=ready", "confirmed": "1"}),
        ("queue/mail/clear/", {}),
    ):
        response = superuser.post(f"/admin/steady_queue/{path}", {**fields, "confirmed_ids": "é"})
        *_, said = get_messages(response.wsgi_request)
        assert UNREADABLE in str(said).lower(), path
    assert counts(database) == before
