"""The pages of recurring tasks: the list, each task, its history, the coming day, and what can be done with them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from steady_queue import disable_recurring_task, schedule_recurring_task
from steady_queue.models import Job, RecurringExecution, RecurringTask
from tests.shop.tasks import add, anything

if TYPE_CHECKING:
    from collections.abc import Callable

LIST = "/admin/steady_queue/recurringtask/"
HOSTILE = "<script>alert(1)</script> \u202e/../?a=b&c#d'\""
FIELDS = {
    "key": "new",
    "task_path": "tests.shop.tasks.add",
    "schedule": "30 2 * * *",
    "time_zone": "Europe/Berlin",
    "args": "[1]",
    "kwargs": '{"b": 2}',
    "catch_up": "last",
    "priority": "5",
    "description": "why",
}


def put(key: str = "key", schedule: str = "*/10 * * * *", **options: Any) -> None:
    schedule_recurring_task(add, key=key, schedule=schedule, **{"args": [1], **options})


def entry(database: str, key: str = "key") -> RecurringTask:
    return RecurringTask.objects.using(database).get(key=key)


def url(view: str, key: str = "key") -> str:
    return f"{LIST}{view}/?key={quote(key)}"


def text_of(response: Any) -> str:
    assert response.status_code == 200
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode())))


def said(response: Any) -> str:
    assert response.status_code == 302
    *_, last = get_messages(response.wsgi_request)
    return str(last)


def logged() -> list[tuple[str, str, str]]:
    return list(LogEntry.objects.order_by("id").values_list("object_id", "change_message", "user__username"))


def filled(client: Client, page: str, **changes: str) -> dict[str, str]:
    """The fields of the form that a page shows, with these changes."""
    found = client.get(page).content.decode()
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', found))
    fields |= dict(re.findall(r'<input type="(?:text|number)" name="(\w+)" value="([^"]*)"', found))
    fields |= dict(re.findall(r'<textarea name="(\w+)"[^>]*>\s?([^<]*)</textarea>', found))
    fields |= dict(re.findall(r'<select name="(\w+)".*?<option value="(\w+)" selected', found, re.DOTALL))
    return {name: unescape(value) for name, value in fields.items()} | changes


# -- pages ------------------------------------------------------------------------------------------------------------


def test_item_165_the_list_and_the_page_of_a_recurring_task_show_its_schedule_and_runs(
    database: str, superuser: Client
) -> None:
    put("reports", "30 2 * * mon", time_zone="Europe/Berlin", description="for Ada", priority=4, queue_name="mail")
    put("paused")
    disable_recurring_task("paused")
    result = add.enqueue(1)
    RecurringExecution(job_id=result.id, task_key="reports", run_at=timezone.now(), created_at=timezone.now()).save(
        using=database, force_insert=True
    )

    with CaptureQueriesContext(connections[database]) as queries:
        shown = text_of(superuser.get(LIST))
    assert len(queries) <= 15
    for part in ("reports", "At 02:30, only on Monday", "30 2 * * mon", "Europe/Berlin", "ready", "disabled", "never"):
        assert part in shown

    with CaptureQueriesContext(connections[database]) as queries:
        page = superuser.get(url("task", "reports"))
    assert len(queries) <= 15
    shown = text_of(page)
    assert len(re.findall(r"Mon \d{4}-\d\d-\d\d 02:30:00 CES?T", shown)) == 5
    for part in ("for Ada", "mail", "tests.shop.tasks.add", result.id, "Run now", "Disable", "Edit"):
        assert part in shown
    assert "A person has disabled it" in text_of(superuser.get(url("task", "paused")))
    # The overview links to the list with a key.
    assert "for Ada" in text_of(superuser.get(f"{LIST}?key=reports"))


@pytest.mark.usually_on("sqlite")
def test_the_list_has_pages(database: str, superuser: Client) -> None:
    for number in range(60):
        put(f"key {number:02}")
    first = superuser.get(LIST).content.decode()
    assert ("key 00" in first, "key 49" in first, "key 50" in first) == (True, True, False)
    link = re.search(r'href="(\?after=[^"]+)"', first)
    assert link is not None
    second = superuser.get(LIST + unescape(link[1])).content.decode()
    assert (">key 49<" in second, "key 50" in second, "key 59" in second, "?after=" in second) == (
        False,
        True,
        True,
        False,
    )


@pytest.mark.usually_on("sqlite")
def test_the_history_has_pages(database: str, superuser: Client) -> None:
    put()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    RecurringExecution.objects.using(database).bulk_create(
        RecurringExecution(job_id=uuid4(), task_key="key", run_at=at + timedelta(hours=hour), created_at=at)
        for hour in range(60)
    )
    first = superuser.get(url("history")).content.decode()
    assert ("2026-01-03 11:00" in first, "2026-01-01 09:00" in first) == (True, False)
    older = re.search(r'href="([^"]+before=[^"]+)"', first)
    assert older is not None
    second = superuser.get(unescape(older[1])).content.decode()
    assert ("2026-01-03 11:00" in second, "2026-01-01 09:00" in second) == (False, True)
    assert superuser.get(f"{url('history')}&before=yesterday").status_code == 200


@pytest.mark.usually_on("sqlite")
def test_the_calendar_shows_the_load_of_each_hour_of_the_coming_day(database: str, superuser: Client) -> None:
    put("often", "*/15 * * * *")
    put("too often", "@every 1")
    shown = text_of(superuser.get(f"{LIST}calendar/"))
    assert shown.count("often (4)") == 23
    assert "only the first 1,500 runs are counted: too often" in shown
    assert "; at most " in shown


@pytest.mark.usually_on("sqlite")
def test_pages_say_why_a_task_does_not_run(database: str, superuser: Client) -> None:
    put("broken")
    put("edited")
    put("late", "@every 60", catch_up="all")
    stored = RecurringTask.objects.using(database)
    stored.filter(key="broken").update(enabled=False, disabled_reason="UnknownTaskError: <b>gone</b>")
    stored.filter(key="edited").update(schedule="at noon")
    stored.filter(key="late").update(updated_at=timezone.now() - timedelta(hours=1))

    assert "A scheduler has disabled it: UnknownTaskError: <b>gone</b>" in text_of(superuser.get(url("task", "broken")))
    assert "It cannot run: ConfigurationError: the schedule 'at noon'" in text_of(superuser.get(url("task", "edited")))
    assert "It is repeated as soon as a scheduler runs." in text_of(superuser.get(url("task", "late")))
    shown = text_of(superuser.get(LIST))
    assert "cannot run" in shown
    assert " late " in shown


def test_hostile_keys_and_arguments_are_shown_safely(database: str, superuser: Client) -> None:
    put(HOSTILE, description=HOSTILE, args=[HOSTILE], kwargs={"b": "x" * 500_000})
    schedule_recurring_task(anything, key="secret", schedule="@daily", kwargs={"password": "hunter2"})
    for page in (LIST, url("task", HOSTILE), url("history", HOSTILE), f"{LIST}calendar/", url("delete", HOSTILE)):
        response = superuser.get(page)
        shown = response.content.decode()
        assert response.status_code == 200
        assert "<script>alert" not in shown
        assert "\u202e" not in re.sub(r'value="[^"]*"', "", shown)
        assert len(shown) < 100_000
    assert "too many to edit" in text_of(superuser.get(url("edit", HOSTILE)))
    assert "hunter2" not in superuser.get(url("task", "secret")).content.decode()
    assert "hunter2" not in superuser.get(url("edit", "secret")).content.decode()

    response = superuser.post(f"{LIST}run/", {"key": HOSTILE})
    assert "was enqueued" in said(response)
    assert superuser.get(response["Location"]).status_code == 200
    assert Job.objects.using(database).count() == 1
    # The admin's log links to the page.
    link = LogEntry.objects.get().get_admin_url()
    assert link is not None
    assert superuser.get(link, follow=True).status_code == 200


@pytest.mark.parametrize("key", ["unknown", "", "nul \x00", "z" * 300])
@pytest.mark.usually_on("sqlite", "postgres")
def test_item_165_an_unknown_key_redirects_to_the_list_with_a_message(
    database: str, superuser: Client, key: str
) -> None:
    for view in ("task", "history", "edit", "delete"):
        response = superuser.get(url(view, key))
        assert response["Location"] == LIST
        assert "There is no recurring task with the key" in said(response)
    for view in ("run", "switch", "edit", "delete"):
        response = superuser.post(f"{LIST}{view}/", {"key": key})
        assert response["Location"] == LIST
    assert logged() == []


# -- run, enable, disable, delete -------------------------------------------------------------------------------------


def test_item_165_run_now_enqueues_the_task_exactly_once_and_the_schedule_goes_on(
    database: str, superuser: Client
) -> None:
    put(kwargs={"b": 2}, queue_name="mail", priority=3)
    before = RecurringTask.objects.using(database).values().get()
    response = superuser.post(f"{LIST}run/", {"key": "key", "reason": "Ada asked"}, headers={"accept-language": "de"})

    job = Job.objects.using(database).get()
    assert said(response) == f"The task was enqueued as {job.id}."
    assert (job.arguments, job.queue_name, job.priority, job.headers) == ('[1,[1],{"b":2}]', "mail", 3, None)
    # It is not a tick of the schedule: the history does not have it, and the next tick is enqueued as planned.
    assert RecurringTask.objects.using(database).values().get() == before
    assert not RecurringExecution.objects.using(database).exists()
    assert logged() == [("key", f"Ran now as task {job.id}. Reason: Ada asked", "Ada")]


@pytest.mark.usually_on("sqlite")
def test_a_task_that_cannot_be_run_now_says_why(database: str, superuser: Client) -> None:
    put("once", skip_if_unfinished=True)
    put("gone")
    RecurringTask.objects.using(database).filter(key="gone").update(task_path="tests.shop.tasks.gone")
    superuser.post(f"{LIST}run/", {"key": "once"})
    again = superuser.post(f"{LIST}run/", {"key": "once", "from": "list", "after": "a"})
    assert "once: The task was not enqueued: the task of an earlier run is unfinished" in said(again)
    assert again["Location"] == f"{LIST}?after=a"
    assert "not enqueued: 'tests.shop.tasks.gone' is not a task" in said(superuser.post(f"{LIST}run/", {"key": "gone"}))
    assert Job.objects.using(database).count() == 1
    assert len(logged()) == 1


def test_a_task_is_switched_off_and_on(database: str, superuser: Client) -> None:
    put()
    assert said(superuser.post(f"{LIST}switch/", {"key": "key", "on": "0", "reason": "too slow"})) == (
        "It is disabled now."
    )
    assert not entry(database).enabled
    assert said(superuser.post(f"{LIST}switch/", {"key": "key", "on": "0"})) == "It is disabled already."
    assert said(superuser.post(f"{LIST}switch/", {"key": "key", "on": "1"})) == "It is enabled now."
    assert entry(database).enabled
    assert logged() == [("key", "Disabled. Reason: too slow", "Ada"), ("key", "Enabled.", "Ada")]


def test_only_dynamic_tasks_are_edited_and_deleted(database: str, superuser: Client) -> None:
    put()
    put("static")
    RecurringTask.objects.using(database).filter(key="static").update(static=True)
    for response in (
        superuser.get(url("edit", "static")),
        superuser.get(url("delete", "static")),
        superuser.post(f"{LIST}edit/", {**FIELDS, "key": "static", "save": "1"}),
        superuser.post(f"{LIST}delete/", {"key": "static"}),
    ):
        assert "defined in the code or the settings" in said(response)
    assert "Edit" not in text_of(superuser.get(url("task", "static")))

    assert "will not run again" in text_of(superuser.get(url("delete")))
    assert said(superuser.post(f"{LIST}delete/", {"key": "key"})) == "The recurring task key was deleted."
    assert [row.key for row in RecurringTask.objects.using(database).all()] == ["static"]
    assert logged() == [("key", "Deleted.", "Ada")]


# -- add and edit -----------------------------------------------------------------------------------------------------


def test_a_task_is_added_after_a_preview(database: str, superuser: Client) -> None:
    fields = filled(superuser, f"{LIST}add/", **FIELDS)
    previewed = text_of(superuser.post(f"{LIST}add/", {**fields, "preview": "1"}))
    assert "At 02:30" in previewed
    assert len(re.findall(r"\w{3} \d{4}-\d\d-\d\d \d\d:\d\d:00 CES?T", previewed)) == 5
    assert "Nothing is saved yet." in previewed
    assert not RecurringTask.objects.using(database).exists()

    assert said(superuser.post(f"{LIST}add/", {**fields, "save": "1", "reason": "for Ada"})) == "It was added."
    row = entry(database, "new")
    assert (row.task_path, row.schedule, row.time_zone, row.arguments, row.queue_name, row.priority) == (
        "tests.shop.tasks.add",
        "30 2 * * *",
        "Europe/Berlin",
        '[1,[1],{"b":2}]',
        None,
        5,
    )
    assert (row.catch_up, row.skip_if_unfinished, row.description, row.static) == ("last", False, "why", False)
    assert logged() == [("new", "Added. Reason: for Ada", "Ada")]

    again = text_of(superuser.post(f"{LIST}add/", {**fields, "save": "1"}))
    assert "there is already a recurring task with the key 'new'" in again


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"schedule": "99 * * * *"}, "the schedule '99 * * * *' is invalid"),
        ({"schedule": "0 0 31 2 *"}, "never occurs"),
        ({"schedule": "@every 0"}, "at least one second"),
        ({"time_zone": "Europe/Berlim"}, "did you mean 'Europe/Berlin'"),
        ({"task_path": "os.system"}, "'os.system' is not a task"),
        ({"task_path": "tests.shop.tasks.nothing"}, "is not a task"),
        ({"args": "[1, 2, 3]"}, "takes 2 positional arguments, but 3 were passed"),
        ({"args": "<script>"}, "the positional arguments are not JSON"),
        ({"kwargs": "[]"}, "the keyword arguments must be an object"),
        ({"queue_name": "unknown"}, "unknown"),
        ({"priority": "1000"}, "less than or equal to 100"),
        ({"key": ""}, "This field is required"),
        ({"key": "nul \x00"}, "Null characters are not allowed"),
    ],
)
@pytest.mark.usually_on("sqlite")
def test_the_form_says_what_is_wrong(database: str, superuser: Client, changes: dict[str, str], error: str) -> None:
    fields = filled(superuser, f"{LIST}add/", **FIELDS, save="1") | changes
    shown = text_of(superuser.post(f"{LIST}add/", fields))
    assert error in shown
    assert "Nothing was saved" in shown
    assert not RecurringTask.objects.using(database).exists()
    assert logged() == []


def test_a_task_is_edited_and_keeps_what_the_form_does_not_show(database: str, superuser: Client) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    schedule_recurring_task(
        anything, key="key", schedule="@daily", args=[moment], kwargs={"password": "hunter2", "b": 1}
    )
    before = entry(database).arguments
    fields = filled(superuser, url("edit"), schedule="@hourly", save="1")
    assert said(superuser.post(f"{LIST}edit/", fields)) == "It was changed."
    assert (entry(database).schedule, entry(database).arguments) == ("@hourly", before)

    fields = filled(superuser, url("edit"), save="1")
    fields["kwargs"] = fields["kwargs"].replace('"b": 1', '"b": 2')
    superuser.post(f"{LIST}edit/", fields)
    assert entry(database).arguments == before.replace('"b":1', '"b":2')
    assert [message for _, message, _ in logged()] == ["Changed.", "Changed."]


@pytest.mark.usually_on("sqlite")
def test_characters_that_cannot_be_seen_are_marked_and_not_saved(database: str, superuser: Client) -> None:
    put(description="why\u202egnp\r\nand\tthen \u0928\u094d\u200d")
    RecurringTask.objects.using(database).update(schedule="@daily\u200b", queue_name="mail\x07")
    shown = text_of(superuser.get(url("edit")))
    for text in ("why\\u202egnp and then \u0928\u094d\u200d.", "@daily\\u200b.", "mail\\x07."):
        assert f"It has characters that cannot be seen, which are escapes here: {text}" in shown
    assert shown.count("cannot be seen") == 3

    fields = filled(superuser, url("edit"), save="1", queue_name="mail")
    shown = text_of(superuser.post(f"{LIST}edit/", fields))
    assert shown.count("Remove them.") == 2
    fields |= {"schedule": "@hourly", "time_zone": "Europe/\u200bBerlin"}
    assert "Europe/\\u200bBerlin. Remove them." in text_of(superuser.post(f"{LIST}edit/", fields))
    assert entry(database).schedule == "@daily\u200b"

    fields |= {"description": "why\r\nand \u0928\u094d\u200d", "time_zone": ""}
    assert said(superuser.post(f"{LIST}edit/", fields)) == "It was changed."
    assert (entry(database).schedule, entry(database).description) == ("@hourly", "why\nand \u0928\u094d\u200d")
    refused = text_of(
        superuser.post(f"{LIST}add/", filled(superuser, f"{LIST}add/", **FIELDS, save="1") | {"key": "a\u202e"})
    )
    assert "a\\u202e. Remove them." in refused


@pytest.mark.usually_on("sqlite")
def test_a_placeholder_of_the_form_keeps_the_secret_of_its_own_place(database: str, superuser: Client) -> None:
    users = [{"user": "a", "password": "A-pw"}, {"user": "b", "password": "B-pw"}]
    schedule_recurring_task(anything, key="key", schedule="@daily", args=[users])
    before = entry(database).arguments
    fields = filled(superuser, url("edit"), save="1")
    ((first, second),) = json.loads(fields["args"])
    shown = text_of(superuser.post(f"{LIST}edit/", fields | {"args": json.dumps([[second, first]])}))
    assert "'[redacted 2]' does not stand for a secret here" in shown
    assert entry(database).arguments == before
    moved = {"args": "[]", "kwargs": json.dumps({"note": first["password"]})}
    assert "does not stand for a secret here" in text_of(superuser.post(f"{LIST}edit/", fields | moved))
    assert entry(database).arguments == before
    first["user"] = "c"
    said(superuser.post(f"{LIST}edit/", fields | {"args": json.dumps([[first, second]])}))
    assert entry(database).arguments == before.replace('"a"', '"c"')


@pytest.mark.usually_on("sqlite")
def test_the_form_gives_no_secret_another_name_or_another_task(database: str, superuser: Client) -> None:
    schedule_recurring_task(anything, key="key", schedule="@daily", args=[{1: "one", "password": "mapSecret"}])
    schedule_recurring_task(anything, key="long", schedule="@daily", kwargs={"password": "s", "text": "x" * 100_000})
    before = [entry(database, key).arguments for key in ("key", "long")]
    fields = filled(superuser, url("edit"), save="1")
    for changes in (
        {"args": fields["args"].replace('"password"', '"note"')},
        {"args": fields["args"].replace('"$": "dict"', '"$": "tuple"')},
        {"task_path": "tests.shop.tasks.add"},
    ):
        shown = text_of(superuser.post(f"{LIST}edit/", fields | changes))
        assert "'[redacted 1]' does not stand for a secret here" in shown
        assert "mapSecret" not in shown
    fields = filled(superuser, url("edit", "long"), save="1", task_path="tests.shop.tasks.add")
    assert "another task cannot get arguments" in text_of(superuser.post(f"{LIST}edit/", fields))
    assert [entry(database, key).arguments for key in ("key", "long")] == before


def test_a_form_of_a_task_that_has_changed_meanwhile_changes_nothing(database: str, superuser: Client) -> None:
    put()
    fields = filled(superuser, url("edit"), schedule="@yearly", save="1")
    put(schedule="@monthly", replace=True)
    assert "It has changed since this form was opened" in text_of(superuser.post(f"{LIST}edit/", fields))
    assert entry(database).schedule == "@monthly"
    assert logged() == []


def test_a_task_that_a_person_has_disabled_stays_disabled_when_it_is_edited(database: str, superuser: Client) -> None:
    put("off")
    put("broken")
    disable_recurring_task("off")
    RecurringTask.objects.using(database).filter(key="broken").update(enabled=False, disabled_reason="wrong")
    for key in ("off", "broken"):
        superuser.post(f"{LIST}edit/", filled(superuser, url("edit", key), schedule="@hourly", save="1"))
    off, broken = entry(database, "off"), entry(database, "broken")
    assert (off.schedule, off.enabled) == ("@hourly", False)
    # A person has corrected it.
    assert (broken.schedule, broken.enabled, broken.disabled_reason) == ("@hourly", True, None)


# -- permissions ------------------------------------------------------------------------------------------------------

CHANGES: dict[str, tuple[str, dict[str, str]]] = {
    "run": ("run_recurringtask", {"key": "key"}),
    "switch": ("enable_recurringtask", {"key": "key", "on": "0"}),
    "delete": ("delete_recurringtask", {"key": "key"}),
    "edit": ("change_recurringtask", {"key": "key", "schedule": "@yearly", "save": "1"}),
    "add": ("add_recurringtask", {**FIELDS, "save": "1"}),
}


@pytest.mark.parametrize("view", CHANGES)
@pytest.mark.usually_on("sqlite")
def test_each_change_needs_its_own_permission_and_get_changes_nothing(
    database: str, client_with: Callable[..., Client], superuser: Client, view: str
) -> None:
    permission, fields = CHANGES[view]
    others = {other for other, _ in CHANGES.values()} - {permission}
    put()
    form = url(view) if view == "edit" else f"{LIST}add/"
    data = filled(superuser, form, **fields) if view in ("edit", "add") else fields

    def state() -> tuple[Any, ...]:
        rows = RecurringTask.objects.using(database).order_by("key").values("key", "schedule", "enabled")
        return list(rows), Job.objects.using(database).count()

    before = state()
    refused = {
        "anonymous": (Client(), 302),
        "staff": (client_with(), 403),
        "view only": (client_with("view_recurringtask"), 403),
        "without view": (client_with(permission) if permission != "change_recurringtask" else client_with(), 403),
        "all others": (client_with("view_recurringtask", *others), 403),
    }
    for who, (client, status) in refused.items():
        assert client.post(f"{LIST}{view}/", data).status_code == status, who
    allowed = client_with("view_recurringtask", permission)
    for client in (allowed, superuser):
        assert client.get(url(view)).status_code == (405 if view in ("run", "switch") else 200)
    assert state() == before
    assert logged() == []
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = allowed.cookies
    assert strict.post(f"{LIST}{view}/", data).status_code == 403
    assert state() == before

    assert allowed.post(f"{LIST}{view}/", data).status_code == 302
    assert state() != before
    assert len(logged()) == 1


@pytest.mark.usually_on("sqlite")
def test_a_page_offers_only_what_the_user_may_do(database: str, client_with: Callable[..., Client]) -> None:
    put()
    viewer, runner = client_with("view_recurringtask"), client_with("view_recurringtask", "run_recurringtask")
    for client, offered in ((viewer, False), (runner, True)):
        assert ("Run now" in text_of(client.get(LIST))) == offered
        assert ("Run now" in text_of(client.get(url("task")))) == offered
        for word in ("Disable", "Edit", "Delete", "Add a recurring task"):
            assert word not in text_of(client.get(LIST)) + text_of(client.get(url("task")))


@pytest.mark.usually_on("sqlite")
def test_item_166_the_pages_work_in_another_locale(database: str, superuser: Client) -> None:
    put("often", "@every 1", priority=100)
    for page in (LIST, url("task", "often"), url("edit", "often"), f"{LIST}calendar/"):
        response = superuser.get(page, headers={"accept-language": "de"})
        assert response.status_code == 200
        assert not re.search(r'(?:x|y|width|height)="[^"]*,', response.content.decode())
