"""Records when tasks start and end, and which connections are opened, independently of the queue."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.db.backends.signals import connection_created

from steady_queue.jobs.compat import task_finished, task_started

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult


class Recorder:
    """Records runs by the signals of Django's task framework, which are sent in many threads."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.started_at: dict[str, datetime] = {}
        self.ended: set[str] = set()
        self.running = 0
        self.most_running = 0
        self._lock = threading.Lock()
        task_started.connect(self._started)
        task_finished.connect(self._finished)

    def _started(self, task_result: TaskResult[Any], **kwargs: Any) -> None:
        with self._lock:
            self.runs[task_result.id] += 1
            self.started_at[task_result.id] = datetime.now(UTC)
            self.running += 1
            self.most_running = max(self.most_running, self.running)

    def _finished(self, task_result: TaskResult[Any], **kwargs: Any) -> None:
        with self._lock:
            self.ended.add(task_result.id)
            self.running -= 1


class Connections:
    """Counts connections that are opened: an audit hook sees all of them, a signal those of Django.

    The others belong to the queue, each opened in its own thread.
    """

    def __init__(self) -> None:
        self.django: set[threading.Thread] = set()
        self._opened: set[threading.Thread] = set()
        self._when_started: set[threading.Thread] = set()
        self._before_stopping: set[threading.Thread] = set()
        connection_created.connect(self._django_connected)
        sys.addaudithook(self._audit)

    def runtime_started(self) -> None:
        """Connections that the queue opens from now on are for enqueueing."""
        self._when_started = set(self._opened)

    def runtime_stops(self) -> None:
        """Connections that are opened from now on replace those of cancelled queries, and are not counted."""
        self._before_stopping = set(self._opened)

    @property
    def runtime(self) -> int:
        return len(self._when_started - self.django)

    @property
    def enqueueing(self) -> int:
        return len(self._before_stopping - self._when_started - self.django)

    def _audit(self, event: str, args: Any) -> None:
        if event == "sqlite3.connect":
            self._opened.add(threading.current_thread())

    def _django_connected(self, **kwargs: Any) -> None:
        self.django.add(threading.current_thread())
