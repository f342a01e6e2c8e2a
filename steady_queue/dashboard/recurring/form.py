"""The form of a dynamic recurring task: what is entered, what is wrong with it, and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.db import DatabaseError

from steady_queue import arguments, schedule_recurring_task
from steady_queue.dashboard.argument_form import build_form, read_form
from steady_queue.errors import ArgumentError, ConfigurationError, StoreUnavailable
from steady_queue.jobs.registry import registry
from steady_queue.monitoring.recurring.tasks import preview
from steady_queue.monitoring.text import has_unseen, show_line
from steady_queue.recurring.catch_up import POLICIES
from steady_queue.recurring.definitions import MAX_ZONE_LENGTH, Recurrence, zone_of
from steady_queue.recurring.time_zones import find_zone
from steady_queue.store.names import NAME_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from steady_queue.jobs.compat import Task
    from steady_queue.monitoring.recurring.tasks import Preview, RecurringRow

#: Characters of a description; the column has no limit.
DESCRIPTION_LENGTH = 2_000
_NO_ARGUMENTS = arguments.dumps([], {})
#: Fields whose text is shown in other pages as well. That of arguments is JSON, which has escapes of its own.
_TEXTS = ("key", "task_path", "schedule", "time_zone", "queue_name", "description")
_CATCH_UP = {"none": "none of them", "last": "only the last one", "all": "all, up to the last 1,000"}


class RecurringForm(forms.Form):
    """Adds a recurring task, or changes one: then its key is fixed."""

    template_name = "steady_queue/recurring_fields.html"

    key = forms.CharField(max_length=NAME_LENGTH, help_text="Its name, which is unique.")
    task_path = forms.CharField(label="Task", max_length=NAME_LENGTH, help_text="Its path, such as shop.tasks.greet.")
    schedule = forms.CharField(
        max_length=NAME_LENGTH,
        help_text="A cron expression such as 30 2 * * mon, with seconds as an optional sixth field; @hourly, @daily, "
        "@weekly, @monthly or @yearly; or an interval in seconds, such as @every 300.",
    )
    time_zone = forms.CharField(
        required=False, max_length=MAX_ZONE_LENGTH, help_text="Such as Europe/Berlin; the project's if it is empty."
    )
    args = forms.CharField(label="Positional arguments", widget=forms.Textarea({"rows": 3}), help_text="A JSON list.")
    kwargs = forms.CharField(label="Keyword arguments", widget=forms.Textarea({"rows": 3}), help_text="A JSON object.")
    queue_name = forms.CharField(
        label="Queue", required=False, max_length=NAME_LENGTH, help_text="The task's own if it is empty."
    )
    priority = forms.IntegerField(
        required=False, min_value=-100, max_value=100, help_text="The task's own if it is empty."
    )
    catch_up = forms.ChoiceField(
        label="Missed runs that are repeated", choices=[(policy, _CATCH_UP[policy]) for policy in POLICIES]
    )
    skip_if_unfinished = forms.BooleanField(
        required=False, label="Leave a run out while the task of an earlier one is unfinished"
    )
    description = forms.CharField(required=False, max_length=DESCRIPTION_LENGTH, widget=forms.Textarea({"rows": 2}))
    #: Identifies the stored arguments, and the row as it was when the form was shown.
    arguments_version = forms.CharField(widget=forms.HiddenInput, required=False)
    version = forms.CharField(widget=forms.HiddenInput, required=False)

    def __init__(self, data: Any = None, *, row: RecurringRow | None = None) -> None:
        self.row = row
        self._stored = _NO_ARGUMENTS if row is None else row.arguments
        self._task: Task[..., Any] | None = None
        self._arguments: tuple[Sequence[Any], Mapping[str, Any]] = ((), {})
        #: What the schedule means, as far as it is right.
        self.preview: Preview | None = None
        fields = build_form(self._stored, "" if row is None else row.task_path)
        #: Why the arguments cannot be edited here: they stay as they are.
        self.arguments_problem = fields.problem
        self.has_secrets = fields.has_secrets
        initial = {"args": fields.args, "kwargs": fields.kwargs, "arguments_version": fields.version}
        super().__init__(data, initial=initial | _initial_of(row), label_suffix="")
        if row is not None:
            del self.fields["key"]
        if self.arguments_problem:
            del self.fields["args"], self.fields["kwargs"]
        if data is None:
            self._mark_unseen()

    def _mark_unseen(self) -> None:
        """Say which fields have characters that cannot be seen in them."""
        for name in self.fields.keys() & _TEXTS:
            if problem := _describe_unseen(self.initial.get(name) or ""):
                self.fields[name].help_text = f"{self.fields[name].help_text} {problem}".strip()

    # -- checks -------------------------------------------------------------------------------------------------------

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        self._check_texts()
        self._check("task_path", self._find_task)
        self._check("time_zone", lambda: find_zone(zone_of(given.get("time_zone") or None)))
        if not self.errors.get("time_zone"):
            self._check("schedule", self._find_preview)
        if self._task is not None:
            self._check("args", self._read_arguments)
        if not self.errors:
            for problem in self._recurrence().problems():
                self.add_error(None, problem.partition(": ")[2] or problem)
        return given

    def _check_texts(self) -> None:
        given = self.cleaned_data
        if "description" in given:
            given["description"] = _as_lines(given["description"])
        for name in _TEXTS:
            if problem := _describe_unseen(given.get(name) or ""):
                self.add_error(name, f"{problem} Remove them.")

    def _check(self, field: str, check: Callable[[], object]) -> None:
        if self.errors.get(field):
            return
        try:
            check()
        except (DatabaseError, StoreUnavailable):
            raise
        except Exception as error:  # the checks call code of the project
            self.add_error(field if field in self.fields else None, str(error) or type(error).__name__)

    def _find_task(self) -> None:
        self._task = registry.resolve(self.cleaned_data["task_path"])

    def _find_preview(self) -> None:
        self.preview = preview(self.cleaned_data["schedule"], self.cleaned_data["time_zone"] or None)

    def _read_arguments(self) -> None:
        given = self.cleaned_data
        shown_for = None if self.row is None else self.row.task_path
        if self.arguments_problem:
            if given["task_path"] != shown_for:  # their names, and which of them are secret, may be others
                raise ArgumentError("another task cannot get arguments that are too long to be edited here")
            self._arguments = arguments.loads(self._stored)
        elif "args" in given and "kwargs" in given:
            texts = given["args"], given["kwargs"], given["arguments_version"]
            call = read_form(self._stored, given["task_path"], *texts, shown_for=shown_for)
            self._arguments = call.args, call.kwargs

    # -- what to store ------------------------------------------------------------------------------------------------

    @property
    def task_key(self) -> str:
        return str(self.cleaned_data["key"]) if self.row is None else self.row.key

    def _options(self) -> dict[str, Any]:
        given = self.cleaned_data
        return {
            "schedule": given["schedule"],
            "time_zone": given["time_zone"] or None,
            "args": self._arguments[0],
            "kwargs": self._arguments[1],
            "queue_name": given["queue_name"] or None,
            "priority": given["priority"],
            "catch_up": given["catch_up"],
            "skip_if_unfinished": given["skip_if_unfinished"],
            "description": given["description"],
        }

    def _recurrence(self) -> Recurrence:
        assert self._task is not None
        return Recurrence(task=self._task, key=self.task_key, **self._options())

    def save(self) -> bool:
        """Store the recurring task; returns whether that was possible, and otherwise says why in the form."""
        assert self._task is not None
        try:
            schedule_recurring_task(self._task, key=self.task_key, replace=self.row is not None, **self._options())
        except ConfigurationError as error:  # another process has added the same key
            self.add_error(None, str(error))
            return False
        return True


def version_of(row: RecurringRow) -> str:
    """Identifies a recurring task as it is now."""
    return row.updated_at.isoformat()


def _as_lines(text: str) -> str:
    """Browsers send the ends of lines in another form."""
    return text.replace("\r\n", "\n")


def _describe_unseen(text: str) -> str:
    text = _as_lines(text)
    if not has_unseen(text):
        return ""
    return f"It has characters that cannot be seen, which are escapes here: {show_line(text, DESCRIPTION_LENGTH)}."


def _initial_of(row: RecurringRow | None) -> dict[str, Any]:
    if row is None:
        return {"catch_up": "none"}
    return {
        "task_path": row.task_path,
        "schedule": row.schedule,
        "time_zone": row.time_zone if row.has_own_time_zone else "",
        "queue_name": row.queue_name,
        "priority": row.priority,
        "catch_up": row.catch_up,
        "skip_if_unfinished": row.skip_if_unfinished,
        "description": row.description,
        "version": version_of(row),
    }
