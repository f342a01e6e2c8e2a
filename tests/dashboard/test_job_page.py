"""The page of one task."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from django.contrib.messages import get_messages
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from steady_queue import Unique
from steady_queue.models import ProcessRequest
from steady_queue.store.outcome import ErrorReport, Failed, Finished
from tests.management.shell import shell
from tests.shop.tasks import add
from tests.support.databases.tables import counts, query, row
from tests.support.store.jobs import fail_jobs, job, later
from tests.support.store.states import with_arguments
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from steady_queue.store.job import NewJob

LIST = "/admin/steady_queue/job/"
SCRIPT = "<script>alert(1)</script>\u202e\x1b[31m"

pytestmark = pytest.mark.usually_on("sqlite")


def url_of(one: NewJob | UUID | str, view: str = "") -> str:
    return f"{LIST}{getattr(one, 'id', one)}/{view}"


def read(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200, response
    return response.content.decode()


def messages_of(response: Any) -> list[str]:
    return [str(message) for message in get_messages(response.wsgi_request)]


def failed_job(database: str, **options: Any) -> NewJob:
    one = job(**{"arguments": '[1,["one"],{}]', "task_path": add.module_path, **options})
    fail_jobs(SyncStore(database), one)
    return one


@pytest.mark.parametrize("text", ["019a8a4e-5b7c-7d1e-9a55-3f2f6f7a9c10", "x", "%00", "1" * 500, "%E2%80%AE"])
@pytest.mark.parametrize("view", ["", "edit/"])
def test_item_165_an_unknown_id_gets_a_message_and_the_list(
    database: str, superuser: Client, text: str, view: str
) -> None:
    """Item 165 of behaviour.md: unknown ids redirect with a message."""
    response = superuser.get(url_of(text, view))
    assert (response.status_code, response["Location"]) == (302, LIST)
    (message,) = messages_of(response)
    assert "There is no task" in message or "is not the id of a task" in message
    assert "\u202e" not in message


def test_item_162_a_failed_task_shows_its_error_arguments_and_both_tracebacks(database: str, superuser: Client) -> None:
    """Item 162 of behaviour.md: failed list, detail, error, redacted arguments, clean and full traceback."""
    library = '  File "/srv/lib/python3.13/site-packages/lib.py", line 1, in call\n    send()'
    own = '  File "/srv/shop/tasks.py", line 2, in send\n    raise ValueError'
    text = f"Traceback:\n{library}\n{own}\nValueError: it broke"
    error = ErrorReport("builtins.ValueError", "it broke", text)
    store = SyncStore(database)
    one = job(arguments='[1,["ada"],{"password":"s3cret"}]', task_path="tests.shop.tasks.anything")
    (claim,) = store.claimed(one)
    store.settle(Failed(claim, error), process_name="worker-7")
    assert "it broke" in read(superuser, f"{LIST}?state=failed")
    shown = read(superuser, url_of(one))
    for text in ("ValueError", "it broke", "worker-7", "ada", "[redacted]", "(1 call of libraries)"):
        assert text in shown
    assert "s3cret" not in shown
    short, _, full = shown.partition("<summary>Full traceback</summary>")
    assert "site-packages" not in short
    assert "site-packages" in full


def test_a_running_task_shows_its_process_its_progress_and_its_log(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    one = job()
    process = store.worker("worker-7")
    (claim,) = store.claimed(one, process_id=process)
    line = json.dumps({"at": "2026-11-18T12:00:00+00:00", "attempt": 1, "message": f"line {SCRIPT}"})
    progress = json.dumps({"done": 3, "total": 4, "message": "three of four"})
    query(database, "UPDATE steady_queue_job SET log = %s, progress = %s", line, progress)
    shown = read(superuser, url_of(one))
    for text in ("worker-7", f"/process/{process}/", 'value="0.75"', "3 of 4", "three of four", "line &lt;script&gt;"):
        assert text in shown
    assert f'value="cancel:{one.id}"' in shown
    assert "retry:" not in shown
    store.settle(Finished(claim))
    shown = read(superuser, url_of(one))
    assert "Attempt 1 finished" in shown
    assert 'name="do"' not in shown


def test_a_task_that_waits_says_why(database: str, superuser: Client) -> None:
    one = job(scheduled_at=later())
    SyncStore(database).enqueue(one)
    assert "It is scheduled for" in read(superuser, url_of(one))


def test_hostile_data_is_shown_safely_and_cut(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    long = json.dumps([1, [SCRIPT + "x" * 10_000_000], {SCRIPT: SCRIPT}])
    one = job(queue_name=SCRIPT.replace("\x1b", ""), task_path=f"a.{SCRIPT}"[:250], arguments=long)
    (claim,) = store.claimed(one)
    error = ErrorReport(SCRIPT, SCRIPT + "y" * 5_000_000, SCRIPT + "z" * 5_000_000)
    store.settle(Failed(claim, error), process_name=SCRIPT[:200])
    for column in ("metadata", "return_value"):  # one by one: MariaDB refuses statements of more than 16 MB
        query(database, f"UPDATE steady_queue_job SET {column} = %s", long)
    for url in (LIST, f"{LIST}?state=failed", f"{LIST}?state=failed&queue=%3Cscript%3E%E2%80%AE", url_of(one)):
        shown = read(superuser, url)
        assert len(shown) < 1_000_000
        assert "<script>alert" not in shown
        assert "\u202e" not in shown
        assert "\x1b" not in shown
    asked = superuser.post(f"{LIST}action/", {"do": f"retry:{one.id}"}).content.decode()
    assert "<script>alert" not in asked
    assert "\u202e" not in asked
    assert "too many to edit" in read(superuser, url_of(one, "edit/"))


def test_an_argument_that_is_cut_says_so(database: str, superuser: Client) -> None:
    long, short = job(arguments=with_arguments(body="x" * 10_001)), job(arguments=with_arguments(body="x" * 100))
    SyncStore(database).enqueue(long, short)
    note = "Only the beginning of the value is shown."
    assert read(superuser, url_of(long)).count(note) == 1
    assert note not in read(superuser, url_of(short))
    assert "(only the beginning of the value)" in shell("jobs", str(long.id)).out
    assert "(only the beginning" not in shell("jobs", str(short.id)).out
    (found,) = shell("jobs", str(long.id), "--json").json["jobs"]
    assert [one["is_cut"] for one in found["arguments"]] == [True]


def test_item_166_the_pages_work_in_any_locale(database: str, superuser: Client) -> None:
    """Item 166 of behaviour.md."""
    store = SyncStore(database)
    one = failed_job(database)
    running = job()
    (claim,) = store.claimed(running)
    query(database, "UPDATE steady_queue_job SET progress = %s", json.dumps({"done": 1234.5, "total": 4000}))
    for language in ("de", "ar", "fr"):
        for url in (LIST, f"{LIST}?state=running", url_of(one), url_of(running), url_of(one, "edit/")):
            response = superuser.get(url, headers={"accept-language": language})
            assert response.status_code == 200
            assert 'value="0,' not in response.content.decode()
        shown = superuser.get(url_of(running), headers={"accept-language": language}).content.decode()
        assert 'value="0.308625"' in shown
    store.settle(Finished(claim))


# -- retry with other arguments ---------------------------------------------------------------------------------------


def version_of(client: Client, one: NewJob) -> str:
    shown = read(client, url_of(one, "edit/"))
    return shown.partition('name="version" value="')[2].partition('"')[0]


def test_a_task_is_retried_with_edited_arguments(database: str, superuser: Client) -> None:
    one = failed_job(database)
    fields = {"args": "[1]", "kwargs": '{"b": 2}', "version": version_of(superuser, one), "reason": "typo"}
    response = superuser.post(url_of(one, "edit/"), fields)
    assert response["Location"] == url_of(one)
    assert messages_of(response) == [f"The task {one.id} was retried with other arguments."]
    stored = row(database, "job", one.id, "id")
    assert stored is not None
    assert stored["arguments"] == '[1,[1],{"b":2}]'
    assert counts(database) == {"ready": 1}
    shown = read(superuser, url_of(one))
    assert "Retry with other arguments. Reason: typo" in shown
    assert "Arguments until" in shown

    again = superuser.post(url_of(one, "edit/"), fields)
    assert again.status_code == 200
    assert "have changed since" in again.content.decode()


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ("[1, 2, 3]", "{}", "takes 2 positional arguments"),
        ("[1]", '{"c": 1}', "has no argument"),
        ("[1", "{}", "are not JSON"),
        ("[]", "[]", "must be an object"),
    ],
)
def test_arguments_that_are_wrong_are_refused_and_kept_in_the_form(
    database: str, superuser: Client, args: str, kwargs: str, says: str
) -> None:
    one = failed_job(database)
    fields = {"args": args, "kwargs": kwargs, "version": version_of(superuser, one), "reason": "because"}
    response = superuser.post(url_of(one, "edit/"), fields)
    shown = response.content.decode()
    assert response.status_code == 200
    assert says in shown
    assert f">{escape(args)}</textarea>" in shown
    assert f">{escape(kwargs)}</textarea>" in shown
    assert 'value="because"' in shown
    assert counts(database) == {"failed": 1}


def test_secrets_are_neither_shown_nor_lost_when_arguments_are_edited(database: str, superuser: Client) -> None:
    one = failed_job(database, task_path="tests.shop.tasks.anything", arguments='[1,[1],{"token":"t0ken"}]')
    assert "t0ken" not in read(superuser, url_of(one, "edit/"))
    fields = {"args": "[2]", "kwargs": '{"token": "[redacted 1]"}', "version": version_of(superuser, one)}
    assert superuser.post(url_of(one, "edit/"), fields).status_code == 302
    stored = row(database, "job", one.id, "id")
    assert stored is not None
    assert stored["arguments"] == '[1,[2],{"token":"t0ken"}]'


def test_a_secret_gets_no_name_that_is_shown_when_arguments_are_edited(database: str, superuser: Client) -> None:
    stored = '[1,[],{"payload":{"$":"dict","v":[[1,"one"],["password","mapSecret"]]}}]'
    one = failed_job(database, task_path="tests.shop.tasks.anything", arguments=stored)
    shown = '{"payload": {"$": "dict", "v": [[1, "one"], ["password", "[redacted 1]"]]}}'
    for old, new in (('"password"', '"note"'), ('"$": "dict"', '"$": "tuple"')):
        fields = {"args": "[]", "kwargs": shown.replace(old, new), "version": version_of(superuser, one)}
        response = superuser.post(url_of(one, "edit/"), fields)
        assert "does not stand for a secret here" in response.content.decode()
        assert "mapSecret" not in response.content.decode()
    assert counts(database) == {"failed": 1}


def test_the_digest_of_arguments_that_is_a_unique_key_is_not_shown(database: str, superuser: Client) -> None:
    result = add.using(unique=Unique()).enqueue(4711)
    stored = row(database, "job", result.id, "id")
    assert stored is not None
    page = superuser.get(f"{LIST}{result.id}/").content.decode()
    assert page.count("all arguments") == 2
    assert stored["unique_key"].rpartition("/")[2] not in page


def test_a_task_that_was_retried_meanwhile_is_not_changed(database: str, superuser: Client) -> None:
    one = failed_job(database)
    fields = {"args": "[9]", "kwargs": "{}", "version": version_of(superuser, one)}
    SyncStore(database).retry(one)
    response = superuser.post(url_of(one, "edit/"), fields)
    assert messages_of(response) == [f"The task {one.id} cannot be retried: it is ready."]
    assert superuser.get(url_of(one, "edit/")).status_code == 302
    stored = row(database, "job", one.id, "id")
    assert stored is not None
    assert stored["arguments"] == '[1,["one"],{}]'


def test_a_task_that_the_code_no_longer_has_cannot_be_edited_and_says_so(database: str, superuser: Client) -> None:
    one = failed_job(database, task_path="tests.shop.tasks.removed")
    response = superuser.post(
        url_of(one, "edit/"), {"args": "[]", "kwargs": "{}", "version": version_of(superuser, one)}
    )
    assert "has no task" in response.content.decode()


def test_to_edit_arguments_needs_its_own_permission(database: str, client_with: Callable[..., Client]) -> None:
    one = failed_job(database)
    for client in (client_with("view_job"), client_with("view_job", "retry_job"), client_with("edit_job")):
        assert client.get(url_of(one, "edit/")).status_code == 403
        assert client.post(url_of(one, "edit/"), {"args": "[]", "kwargs": "{}"}).status_code == 403
    assert "edit/" not in read(client_with("view_job", "retry_job"), url_of(one))
    editor = client_with("view_job", "edit_job")
    assert url_of(one, "edit/") in read(editor, url_of(one))
    fields = {"args": "[1]", "kwargs": "{}", "version": version_of(editor, one)}
    assert editor.post(url_of(one, "edit/"), fields).status_code == 302
    assert counts(database) == {"ready": 1}


# -- the stack of a running task --------------------------------------------------------------------------------------


def test_the_stack_of_a_running_task_is_asked_of_its_process_and_shown(database: str, superuser: Client) -> None:
    store = SyncStore(database)
    one = job()
    (claim,) = store.claimed(one)
    assert "Show stack" in read(superuser, url_of(one))
    response = superuser.post(url_of(one, "stack/"))
    url = response["Location"]
    assert url.startswith(f"{url_of(one)}?stack=")
    waiting = read(superuser, url)
    assert "has not replied yet" in waiting
    assert "does not reply" not in waiting
    ProcessRequest.objects.using(database).update(requested_at=store.now() - timedelta(minutes=1))
    waiting = read(superuser, url)
    assert "1 min" in waiting
    assert "A process that is dead or blocked does not reply." in waiting
    reply = json.dumps({"is_running": True, "run_seconds": 2.5, "stack": ["in send", SCRIPT]})
    requests = ProcessRequest.objects.using(database)
    assert requests.get().requested_by == "Ada"
    requests.update(reply=reply, replied_at=store.now())
    with CaptureQueriesContext(connections[database]) as queries:
        shown = read(superuser, url)
    assert len([query for query in queries if "steady_queue_processrequest" in query["sql"]]) == 1
    assert "in send\n&lt;script&gt;" in shown
    assert "2.5 s" in shown
    assert "no longer stored" in read(superuser, f"{url_of(one)}?stack={uuid4()}")
    assert "no longer stored" in read(superuser, f"{url_of(one)}?stack=x")
    requests.update(job_id=uuid4())
    assert "no longer stored" in read(superuser, url)
    store.settle(Finished(claim))
    response = superuser.post(url_of(one, "stack/"))
    assert response["Location"] == url_of(one)
    assert "not running any more" in messages_of(response)[-1]
    assert superuser.post(url_of(uuid4(), "stack/"))["Location"] == LIST


def test_a_stack_needs_its_own_permission_and_a_post(database: str, client_with: Callable[..., Client]) -> None:
    store = SyncStore(database)
    one = job()
    (claim,) = store.claimed(one)
    viewer, inspector = client_with("view_job", "cancel_job"), client_with("view_job", "inspect_job")
    assert "Show stack" not in read(viewer, url_of(one))
    assert viewer.post(url_of(one, "stack/")).status_code == 403
    assert inspector.get(url_of(one, "stack/")).status_code == 405
    assert not ProcessRequest.objects.using(database).exists()
    url = inspector.post(url_of(one, "stack/"))["Location"]
    assert 'id="sq-stack"' in read(inspector, url)
    assert 'id="sq-stack"' not in read(viewer, url)
    store.settle(Finished(claim))
