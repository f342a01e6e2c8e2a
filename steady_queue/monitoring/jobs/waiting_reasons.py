"""Why a task waits, in sentences, each with the page that shows more."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.configuration import alive_threshold
from steady_queue.db.aliases import queue_alias
from steady_queue.models import BlockedExecution, Pause, Process, ReadyExecution, Semaphore
from steady_queue.monitoring.attention import Target
from steady_queue.monitoring.counts import CappedCount, count_capped
from steady_queue.monitoring.jobs.rows import find_process_names
from steady_queue.monitoring.process_list import MAX_PROCESSES
from steady_queue.monitoring.states import LATE_SECONDS, JobState
from steady_queue.monitoring.text import show_seconds
from steady_queue.monitoring.times import show_local
from steady_queue.store.job import SERVED_LANES, Lane, lane_name
from steady_queue.store.operations.processes.actors import parse_actors, serves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from typing import Any

    from steady_queue.monitoring.jobs.rows import JobRow

#: Holders of slots that are named.
MAX_HOLDERS = 3


class WaitingReason(NamedTuple):
    """`kind` is stable, for tools; `text` is a sentence for people."""

    kind: str
    text: str
    target: Target | None = None


def find_reasons(row: JobRow, lane: int, now: datetime) -> tuple[WaitingReason, ...]:
    """Return why a task has not started, the most important reason first; none for one that runs or has ended.

    `now` is the database's time: it is also that of heartbeats.
    """
    find = {
        JobState.SCHEDULED: _of_scheduled,
        JobState.RETRYING: _of_scheduled,
        JobState.BLOCKED: _of_blocked,
        JobState.READY: _of_ready,
    }.get(row.state)
    return tuple(find(row, lane, now)) if find else ()


def _of_scheduled(row: JobRow, lane: int, now: datetime) -> Iterator[WaitingReason]:
    due_at = row.due_at or now
    moment = show_local(due_at)
    if due_at > now:
        delay = show_seconds((due_at - now).total_seconds())
        if row.state is JobState.RETRYING:
            text = f"Attempt {row.attempts:,} has failed; attempt {row.attempts + 1:,} begins in {delay}, at {moment}."
            yield WaitingReason("retrying", text)
        else:
            yield WaitingReason("scheduled", f"It is scheduled for {moment}, in {delay}.")
        return
    late = show_seconds((now - due_at).total_seconds())
    if now - due_at < timedelta(seconds=LATE_SECONDS):
        yield WaitingReason("due", f"It has been due for {late}, and is about to be moved to its queue.")
    elif any(actor.get("kind") == "dispatcher" for actor in _live_actors(now)):
        text = f"It has been due for {late}, since {moment}, but no dispatcher has moved it to its queue."
        yield WaitingReason("late", text, Target("process"))
    else:
        text = f"It has been due for {late}, since {moment}, but no live process has a dispatcher."
        yield WaitingReason("no_dispatcher", text, Target("process"))


def _of_ready(row: JobRow, lane: int, now: datetime) -> Iterator[WaitingReason]:
    yield from _paused(row)
    name = lane_name(lane)
    if lane not in SERVED_LANES:
        yield WaitingReason("unknown_lane", f"No process of this version runs tasks of the lane {name}.")
    elif not any(serves(actor, row.queue_name, Lane(lane)) for actor in _live_actors(now)):
        text = f"No live process runs the {name} tasks of the queue {row.queue_name}."
        yield WaitingReason("unserved", text, Target("process"))
    same = ReadyExecution.objects.using(queue_alias()).filter(queue_name=row.queue_name, lane=lane)
    ahead = _add(
        count_capped(same.filter(priority__gt=row.priority)),
        count_capped(same.filter(priority=row.priority, job_id__lt=row.id)),
    )
    yield _behind(ahead, f"in the queue {row.queue_name}", Target("job", {"state": "ready", "queue": row.queue_name}))


def _of_blocked(row: JobRow, lane: int, now: datetime) -> Iterator[WaitingReason]:
    key = row.concurrency_key
    slots = Semaphore.objects.using(queue_alias()).filter(concurrency_key=key).order_by("slot")
    columns = ("job_id", "job__claimed_execution__process_id", "job__claimed_execution__claimed_at")
    holders = list(slots.values_list(*columns)[: MAX_HOLDERS + 1])
    names = find_process_names({process_id for _, process_id, _ in holders if process_id is not None})
    if not holders:
        text = f"A slot of the key {key} is free; the next promotion grants it."
        yield WaitingReason("slot_free", text, Target("limit", {"key": key}))
    for job_id, process_id, claimed_at in holders[:MAX_HOLDERS]:
        holder = f"A slot of the key {key} is held by the task {job_id}, which"
        if process_id is None:
            text = f"{holder} is ready."
        else:
            text = f"{holder} runs in {names.get(process_id, process_id)} since {show_local(claimed_at)}."
        yield WaitingReason("slot_held", text, Target("job", {"id": str(job_id)}))
    if len(holders) > MAX_HOLDERS:
        yield WaitingReason("slot_held", f"Other tasks hold slots of the key {key}.", Target("limit", {"key": key}))
    same = BlockedExecution.objects.using(queue_alias()).filter(concurrency_key=key)
    ahead = _add(
        count_capped(same.filter(priority__gt=row.priority)),
        count_capped(same.filter(priority=row.priority, job_id__lt=row.id)),
    )
    yield _behind(ahead, f"for a slot of the key {key}", Target("job", {"state": "blocked", "key": key}))
    yield from _paused(row)


def _paused(row: JobRow) -> Iterator[WaitingReason]:
    pause = Pause.objects.using(queue_alias()).filter(queue_name=row.queue_name).first()
    if pause is not None:
        text = f"The queue {row.queue_name} is paused since {show_local(pause.created_at)}."
        yield WaitingReason("paused", text, Target("queue", {"name": row.queue_name}))


def _behind(ahead: CappedCount, where: str, target: Target) -> WaitingReason:
    if not ahead.number:
        return WaitingReason("next", f"It is the next task {where}.", target)
    return WaitingReason("behind", f"It waits behind {ahead.counted('other task')} {where}.", target)


def _live_actors(now: datetime) -> list[Mapping[str, Any]]:
    """Return what the processes run that have sent a heartbeat recently."""
    live = Process.objects.using(queue_alias()).filter(last_heartbeat_at__gte=now - alive_threshold())
    newest = live.order_by("-started_at").values_list("metadata", flat=True)[:MAX_PROCESSES]
    return [actor for text in newest for actor in parse_actors(text)]


def _add(one: CappedCount, other: CappedCount) -> CappedCount:
    return CappedCount.of(one.number + other.number + (one.is_capped or other.is_capped))
