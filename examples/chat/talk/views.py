"""Async views. None of them waits for an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms
from django.http import Http404, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from steady_queue.jobs.compat import TaskResultDoesNotExist
from talk.models import Answer
from talk.progress import Progress, event_stream, progress_of
from talk.tasks import write_answer

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpRequest, HttpResponse

SHOWN = 10


class PromptForm(forms.Form):
    """The question."""

    prompt = forms.CharField(max_length=500, widget=forms.Textarea(attrs={"rows": 3}))


@require_http_methods(["GET", "HEAD", "POST"])
async def ask(request: HttpRequest) -> HttpResponse:
    """Show the form; enqueue a task for a prompt, and redirect to the page of its answer."""
    form = PromptForm(request.POST or None)
    if form.is_valid():
        result = await write_answer.aenqueue(form.cleaned_data["prompt"])
        return redirect("show", answer_id=result.id)
    newest = [answer async for answer in Answer.objects.order_by("-begun_at")[:SHOWN]]
    return render(request, "talk/ask.html", {"form": form, "answers": newest})


@require_safe
async def show(request: HttpRequest, answer_id: UUID) -> HttpResponse:
    """Show the answer so far; a script on the page updates it."""
    progress = await _progress_or_404(answer_id)
    return render(request, "talk/show.html", {"answer_id": answer_id, "progress": progress})


@require_safe
async def events(request: HttpRequest, answer_id: UUID) -> StreamingHttpResponse:
    """Stream the answer."""
    await _progress_or_404(answer_id)
    return StreamingHttpResponse(
        event_stream(answer_id), content_type="text/event-stream", headers={"Cache-Control": "no-cache"}
    )


async def _progress_or_404(answer_id: UUID) -> Progress:
    try:
        return await progress_of(answer_id)
    except TaskResultDoesNotExist:
        raise Http404("there is no such answer") from None
