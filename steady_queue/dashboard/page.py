"""PageAdmin: what all pages of the dashboard have in common."""

from __future__ import annotations

import logging
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, InterfaceError, connections, transaction
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_POST

from steady_queue.dashboard.audit import REASON_LENGTH
from steady_queue.dashboard.refusals import Refused
from steady_queue.db.aliases import queue_alias
from steady_queue.errors import StoreError
from steady_queue.store.names import database_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import Model
    from django.http import HttpRequest
    from django.urls import URLPattern

    View = Callable[..., HttpResponse]
    _ModelAdmin = ModelAdmin[Any]
else:
    _ModelAdmin = ModelAdmin  # Django's own class cannot be subscripted

logger = logging.getLogger("steady_queue")
#: Errors after which a page says that the database cannot be read.
UNREADABLE = (DatabaseError, InterfaceError, StoreError)
#: Requests of pages that refresh themselves have it.
REFRESH_HEADER = "X-Steady-Queue-Refresh"
#: The pages in the order of the navigation: the name of the model, and the title.
NAVIGATION = (
    ("overview", "Overview"),
    ("job", "Tasks"),
    ("queue", "Queues"),
    ("process", "Processes"),
    ("recurringtask", "Recurring tasks"),
    ("limit", "Limits"),
)


class PageAdmin(_ModelAdmin):
    """A page of the dashboard. A subclass defines `show_list` and `views`; nothing is edited in forms of the admin."""

    #: Further views of the page: the route below the page, the name and the name of the method.
    views: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    #: Views that change something, in the same form: they are reached by POST only.
    changes: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    title: ClassVar[str]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        """The page itself."""
        raise NotImplementedError

    # -- permissions --------------------------------------------------------------------------------------------------

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        # Django's own rule includes the permission to change, which the pages do not use.
        return self.may(request, f"view_{self.opts.model_name}")

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def may(self, request: HttpRequest, permission: str) -> bool:
        """Whether the user has a permission of the queue, such as "retry_job"."""
        return bool(request.user.has_perm(f"{self.opts.app_label}.{permission}"))  # type: ignore[union-attr]

    def require(self, request: HttpRequest, permission: str) -> None:
        if not self.may(request, permission):
            raise PermissionDenied

    # -- views --------------------------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        name = self.opts.model_name
        own = [path("", self.wrap(self.show_list), name=f"steady_queue_{name}_changelist")]
        # Changes first: their routes have no parameter where those of other views have one.
        further = [(*view, require_POST(self.wrap(getattr(self, view[2])))) for view in self.changes]
        further += [(*view, self.wrap(getattr(self, view[2]))) for view in self.views]
        return own + [path(route, view, name=f"steady_queue_{name}_{suffix}") for route, suffix, _, view in further]

    def wrap(self, view: View) -> View:
        """Check that the user may see the page, and say so if the database cannot be read."""

        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not self.has_view_permission(request):
                raise PermissionDenied
            try:
                return _render(view(request, *args, **kwargs))  # here, where errors of the database are handled
            except Refused as refusal:
                return self.redirect_with(request, str(refusal), self.url_of(f"{self.opts.model_name}_changelist"))
            except UNREADABLE as error:
                return _render(self.show_unavailable(request, error))

        for_users = self.admin_site.admin_view(csrf_protect(never_cache(answer)))

        def guard(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                return for_users(request, *args, **kwargs)
            except UNREADABLE:  # the user, or the session, is in a database that is away
                logger.exception("the page %s cannot be shown", request.path)
                return _answer_unknown_user(request)

        return _not_atomic(update_wrapper(never_cache(guard), view))

    def show_unavailable(self, request: HttpRequest, error: Exception) -> HttpResponse:
        logger.error("the page %s cannot be shown", request.path, exc_info=error)
        alias = queue_alias()
        context = {
            "error": str(error),
            "alias": alias,
            "is_unmigrated": _is_unmigrated(alias),
            "migrate_command": f"python manage.py migrate{database_option(alias)}",
        }
        return self.render(request, "unavailable.html", "The database cannot be read", status=503, **context)

    def render_json(self, read: Callable[[], dict[str, Any]]) -> JsonResponse:
        """Return what a function reads, for other programs."""
        try:
            return JsonResponse(read())
        except UNREADABLE as error:
            return JsonResponse({"error": str(error)}, status=503)

    def render(
        self, request: HttpRequest, template: str, title: str, *, status: int = 200, **context: Any
    ) -> TemplateResponse:
        """Return a page of the dashboard."""
        request.current_app = self.admin_site.name
        everything = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "navigation": self.navigation(request),
            "media": self.media,
            "reason_length": REASON_LENGTH,
            **context,
        }
        return TemplateResponse(request, f"steady_queue/{template}", everything, status=status)

    def navigation(self, request: HttpRequest) -> list[dict[str, Any]]:
        """The pages that the user may see and the admin site has."""
        seen = [(name, title) for name, title in NAVIGATION if self.may(request, f"view_{name}")]
        urls = [(self.url_of(f"{name}_changelist"), name, title) for name, title in seen]
        return [
            {"url": url, "title": title, "is_current": name == self.opts.model_name} for url, name, title in urls if url
        ]

    def url_of(self, name: str, *args: Any) -> str:
        """The URL of a view of the dashboard, such as "job_changelist"."""
        try:
            return reverse(f"admin:steady_queue_{name}", args=args, current_app=self.admin_site.name)
        except NoReverseMatch:  # the project has not registered that page
            return ""

    def redirect_with(self, request: HttpRequest, message: str, url: str, level: int = messages.ERROR) -> HttpResponse:
        """Redirect to a page that shows a message.

        A page that refreshes itself gets the message instead, as what it shows no longer exists: it could neither read
        a redirect nor distinguish it from the one to the page to log in, and each would leave its message behind.
        """
        if REFRESH_HEADER in request.headers:
            return HttpResponse(message, status=410, content_type="text/plain; charset=utf-8")
        messages.add_message(request, level, message)
        return HttpResponseRedirect(url)


def _not_atomic(view: View) -> View:
    """Except a view from ATOMIC_REQUESTS.

    A change is committed before the response says so, and a database that is away is noticed inside of the view, which
    says so, rather than before it.
    """
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


def _is_unmigrated(alias: str) -> bool:
    """Whether the database can be read, but migrations of the queue are not applied to it."""
    try:
        executor = MigrationExecutor(connections[alias])
    except UNREADABLE:
        return False
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes("steady_queue")))


def _render(response: HttpResponse) -> HttpResponse:
    return response.render() if isinstance(response, TemplateResponse) else response


def _answer_unknown_user(request: HttpRequest) -> HttpResponse:
    """Say that the database is away, without a query and without details: the user may be anyone."""
    text = "The database cannot be read."
    if request.path.endswith("/json/"):
        return JsonResponse({"error": text}, status=503)
    return HttpResponse(render_to_string("steady_queue/unreachable.html", {"text": text}), status=503)
