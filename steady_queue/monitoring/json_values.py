"""The overview, queues and processes as values of JSON, for people's own tools and autoscalers. The keys are stable."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from steady_queue.monitoring.queue_list import MAX_QUEUES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from steady_queue.monitoring.attention import Attention
    from steady_queue.monitoring.counts import CappedCount
    from steady_queue.monitoring.overview import Overview
    from steady_queue.monitoring.process_jobs import RunningJob
    from steady_queue.monitoring.process_list import ProcessRow
    from steady_queue.monitoring.queue_list import QueueRow
    from steady_queue.monitoring.statistics import Point


def overview_as_json(overview: Overview) -> dict[str, Any]:
    """Everything of the overview."""
    return {
        "now": overview.now.isoformat(),
        "states": {str(state): count_as_json(count) for state, count in overview.states.items()},
        "hour": [point_as_json(point) for point in overview.hour],
        "queues": [queue_as_json(row) for row in overview.queues],
        "processes": [process_as_json(row) for row in overview.processes],
        "attention": [attention_as_json(finding) for finding in overview.attention],
    }


def queues_as_json(now: datetime, queues: Sequence[QueueRow], is_complete: bool | None = None) -> dict[str, Any]:
    """Depth and age of each queue, by name, and of all that are not paused."""
    open_queues = [row for row in queues if not row.is_paused]
    return {
        "now": now.isoformat(),
        "size": sum(row.size.number for row in open_queues),
        "latency_seconds": max((row.latency_seconds or 0.0 for row in open_queues), default=0.0),
        "running": sum(row.running for row in queues),
        # With as many queues as are listed there may be more.
        "is_complete": len(queues) < MAX_QUEUES if is_complete is None else is_complete,
        "queues": {row.name: queue_as_json(row) for row in queues},
    }


def count_as_json(count: CappedCount) -> dict[str, Any]:
    return {"count": count.number, "is_capped": count.is_capped}


def point_as_json(point: Point) -> dict[str, Any]:
    return {**point._asdict(), "at": point.at.isoformat()}


def queue_as_json(row: QueueRow) -> dict[str, Any]:
    """One queue, without its points: `sparkline` has what ended in each minute of the last hour."""
    return {
        "name": row.name,
        "size": row.size.number,
        "is_size_capped": row.size.is_capped,
        # Numbers, not null, for tools that compare them with a threshold.
        "latency_seconds": row.latency_seconds or 0.0,
        "oldest_at": None if row.oldest_at is None else row.oldest_at.isoformat(),
        "is_paused": row.is_paused,
        "running": row.running,
        "is_running_estimated": row.is_running_estimated,
        "rate_per_minute": row.rate_per_minute,
        "failures_per_minute": row.failures_per_minute,
        "utilisation": row.utilisation,
        "served_by": row.served_by,
        "unserved_lanes": row.unserved_lanes,
        "sparkline": row.sparkline,
    }


def process_as_json(row: ProcessRow) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "name": row.name,
        "kind": row.kind,
        "hostname": row.hostname,
        "pid": row.pid,
        "version": row.version,
        "code_version": row.code_version,
        "started_at": row.started_at.isoformat(),
        "heartbeat_age_seconds": row.heartbeat_age_seconds,
        "is_alive": row.is_alive,
        "is_polling": row.is_polling,
        "is_stuck": row.is_stuck,
        "lanes": {lane.name: {"used": lane.used, "size": lane.size} for lane in row.lanes},
        "loop_lag_seconds": row.loop_lag_seconds,
        "memory_bytes": row.memory_bytes,
        "stuck_threads": row.stuck_threads,
        "running": row.running,
        "queues": row.queues,
        "children": [process_as_json(child) for child in row.children],
    }


def running_as_json(job: RunningJob) -> dict[str, Any]:
    """A task that runs in a process."""
    return {"id": str(job.id), "task": job.task_path, "queue": job.queue_name, "at": job.claimed_at.isoformat()}


def attention_as_json(finding: Attention) -> dict[str, Any]:
    found = asdict(finding)
    return {**found, "target": {"page": finding.target.page, "query": dict(finding.target.query)}}
