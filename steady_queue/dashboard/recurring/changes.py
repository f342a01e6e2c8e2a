"""What can be done with recurring tasks: run, enable and disable them; add, edit and delete dynamic ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlencode

from django.contrib import messages
from django.db import DatabaseError, transaction
from django.http import HttpResponse

from steady_queue import disable_recurring_task, enable_recurring_task, unschedule_recurring_task
from steady_queue.dashboard.argument_form import describe_error
from steady_queue.dashboard.audit import read_reason, record, with_reason, written_reason
from steady_queue.dashboard.recurring.form import RecurringForm, version_of
from steady_queue.dashboard.recurring.pages import RecurringPage, show_time
from steady_queue.dashboard.refusals import Refused
from steady_queue.db.aliases import queue_alias
from steady_queue.errors import StoreUnavailable, UnknownRecurringTask
from steady_queue.models import RecurringTask
from steady_queue.monitoring.text import show_line
from steady_queue.recurring.manual_runs import run_recurring_task

if TYPE_CHECKING:
    from django.http import HttpRequest

    from steady_queue.monitoring.recurring.tasks import RecurringRow


class RecurringTaskPage(RecurringPage):
    """Every change is a POST, needs its own permission, and is written to the admin's log."""

    views: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("add/", "add", "add"),
        ("edit/", "edit", "edit"),
        ("delete/", "delete", "delete"),
        *RecurringPage.views,
    )
    changes: ClassVar[tuple[tuple[str, str, str], ...]] = (("run/", "run", "run"), ("switch/", "switch", "switch"))

    # -- run, enable, disable, delete ---------------------------------------------------------------------------------

    def run(self, request: HttpRequest) -> HttpResponse:
        """Enqueue the task now. The schedule goes on as before, and the history has only runs of the schedule."""
        self.require(request, "run_recurringtask")
        row = self.find(request)
        if row is None:
            return self.say_unknown(request)
        reason = read_reason(request)
        try:
            done = run_recurring_task(row.key)
        except UnknownRecurringTask:
            return self.say_unknown(request)
        except (DatabaseError, StoreUnavailable):
            raise
        except Exception as error:  # the task, its arguments and the functions of its keys are code of the project
            text = describe_error(error, row.arguments, row.task_path)
            return self._answer(request, row.key, f"The task was not enqueued: {text}", messages.ERROR)
        if not done.is_enqueued:
            other = f" ({done.job_id})" if done.job_id else ""
            return self._answer(request, row.key, f"The task was not enqueued: {done.reason}{other}.", messages.WARNING)
        self._log(request, row.key, f"Ran now as task {done.job_id}.", reason)
        return self._answer(request, row.key, f"The task was enqueued as {done.job_id}.")

    def switch(self, request: HttpRequest) -> HttpResponse:
        self.require(request, "enable_recurringtask")
        row = self.find(request)
        if row is None:
            return self.say_unknown(request)
        reason = read_reason(request)
        is_on = request.POST.get("on") == "1"
        word = "enabled" if is_on else "disabled"
        if row.is_enabled == is_on:
            return self._answer(request, row.key, f"It is {word} already.", messages.INFO)
        try:
            (enable_recurring_task if is_on else disable_recurring_task)(row.key)
        except UnknownRecurringTask:
            return self.say_unknown(request)
        self._log(request, row.key, f"{word.capitalize()}.", reason)
        return self._answer(request, row.key, f"It is {word} now.")

    def delete(self, request: HttpRequest) -> HttpResponse:
        """Ask first; with POST, delete."""
        self.require(request, "delete_recurringtask")
        row = self._find_dynamic(request)
        if isinstance(row, HttpResponse):
            return row
        if request.method != "POST":
            title = f"Delete the recurring task {show_line(row.key)}?"
            return self.show(request, "recurring_delete.html", title, **self.describe(row))
        reason = read_reason(request)
        try:
            unschedule_recurring_task(row.key)
        except UnknownRecurringTask:
            return self.say_unknown(request)
        self._log(request, row.key, "Deleted.", reason)
        message = f"The recurring task {show_line(row.key)} was deleted."
        return self.redirect_with(request, message, self.url_of("recurringtask_changelist"), messages.SUCCESS)

    def _find_dynamic(self, request: HttpRequest) -> RecurringRow | HttpResponse:
        """Return the recurring task of the request; or, if it is unknown or static, the answer that says so."""
        row = self.find(request)
        if row is None:
            return self.say_unknown(request)
        return self._say_static(request, row) if row.is_static else row

    # -- add and edit -------------------------------------------------------------------------------------------------

    def add(self, request: HttpRequest) -> HttpResponse:
        self.require(request, "add_recurringtask")
        if request.method != "POST":
            return self._show_form(request, RecurringForm())
        form = RecurringForm(request.POST)
        if self._may_save(request, form) and form.save():
            self._log(request, form.task_key, "Added.", read_reason(request))
            return self._answer(request, form.task_key, "It was added.")
        return self._show_form(request, form)

    def edit(self, request: HttpRequest) -> HttpResponse:
        self.require(request, "change_recurringtask")
        row = self._find_dynamic(request)
        if isinstance(row, HttpResponse):
            return row
        if request.method != "POST":
            return self._show_form(request, RecurringForm(row=row))
        form = RecurringForm(request.POST, row=row)
        if self._may_save(request, form) and self._change(form, row):
            self._log(request, row.key, "Changed.", read_reason(request))
            return self._answer(request, row.key, "It was changed.")
        return self._show_form(request, form)

    def _may_save(self, request: HttpRequest, form: RecurringForm) -> bool:
        """Whether the form shall be saved, and has no errors."""
        form.full_clean()
        try:
            read_reason(request)
        except Refused as refusal:
            form.add_error(None, str(refusal))
        return form.is_valid() and "save" in request.POST

    def _change(self, form: RecurringForm, row: RecurringRow) -> bool:
        """Store the form, unless the recurring task has changed meanwhile."""
        alias = queue_alias()
        with transaction.atomic(using=alias):
            # In Python: SQLite compares times as texts, of which one time has several.
            stored = RecurringTask.objects.using(alias).select_for_update().filter(key=row.key, static=False).first()
            is_same = stored is not None and stored.updated_at == row.updated_at
            if not is_same or form.cleaned_data["version"] != version_of(row):
                form.add_error(None, "It has changed since this form was opened: open it again.")
                return False
            is_stored = form.save()
            # Storing enables it. One that a scheduler has disabled is corrected now, one that a person has is not.
            if is_stored and not row.is_enabled and row.disabled_reason is None:
                disable_recurring_task(row.key)
        return is_stored

    def _show_form(self, request: HttpRequest, form: RecurringForm) -> HttpResponse:
        row = form.row
        title = "Add a recurring task" if row is None else f"Edit the recurring task {show_line(row.key)}"
        found = form.preview
        return self.show(
            request,
            "recurring_form.html",
            title,
            form=form,
            preview=found,
            next_runs=[] if found is None else [(at, show_time(at)) for at in found.next_runs],
            back_url=self.url_of("recurringtask_changelist") if row is None else self.link("detail", row.key),
            is_disabled=row is not None and not row.is_enabled and row.disabled_reason is None,
            reason=written_reason(request),
        )

    # -- what is said --------------------------------------------------------------------------------------------------

    def _answer(self, request: HttpRequest, key: str, message: str, level: int = messages.SUCCESS) -> HttpResponse:
        """Say what happened, where the user was: in the list or on the page of the task."""
        url = self.link("detail", key)
        if request.POST.get("from") == "list":
            message = f"{show_line(key)}: {message}"
            url = f"{self.url_of('recurringtask_changelist')}?{urlencode({'after': request.POST.get('after', '')})}"
        return self.redirect_with(request, show_line(message, 500), url, level)

    def _say_static(self, request: HttpRequest, row: RecurringRow) -> HttpResponse:
        message = "It is defined in the code or the settings of the project: change it there."
        return self.redirect_with(request, message, self.link("detail", row.key))

    def _log(self, request: HttpRequest, key: str, message: str, reason: str) -> None:
        record(request, RecurringTask, key, key, with_reason(message, reason))
