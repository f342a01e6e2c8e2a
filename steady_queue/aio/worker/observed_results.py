"""ObservedResults: the results that are sent with `task_started` and `task_finished`, if these have receivers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steady_queue.jobs.compat import task_backends, task_finished, task_started
from steady_queue.jobs.results import results
from steady_queue.jobs.task_signals import is_observed
from steady_queue.store.outcome import Completed

if TYPE_CHECKING:
    from steady_queue.jobs.compat import BaseTaskBackend, Task, TaskResult
    from steady_queue.jobs.registry import Registry
    from steady_queue.store.job import Claim
    from steady_queue.store.outcome import Failed, Finished


class ObservedResults:
    """Making a result costs as much as a small task: it is made only for a receiver, or a task that takes a context."""

    def __init__(self, registry: Registry, process_name: str) -> None:
        self._registry = registry
        self._process_name = process_name
        self._senders: dict[str, type[BaseTaskBackend]] = {}

    def sender(self, alias: str) -> type[BaseTaskBackend]:
        """Return the sender of the signals, the class of the task's backend."""
        sender = self._senders.get(alias)
        if sender is None:
            sender = self._senders[alias] = type(task_backends[alias])
        return sender

    def at_start(self, claim: Claim, task: Task[..., Any]) -> TaskResult[Any] | None:
        """Return the result, if the task takes a context or `task_started` has a receiver."""
        if task.takes_context or is_observed(
            task_started, self._senders.get(claim.backend) or self.sender(claim.backend)
        ):
            return results.of_claim(claim, task, self._process_name)
        return None

    def at_end(
        self, ended: Finished | Completed | Failed, result: TaskResult[Any] | None, level: int | None = None
    ) -> TaskResult[Any] | None:
        """Return the result with the outcome in it, if there is one already or `task_finished` has a receiver.

        None if the task has lost its claim, or if its task or arguments cannot be loaded.
        """
        if isinstance(ended, Completed) and not ended.is_applied:
            return None
        if result is None:
            claim = ended.claim
            try:
                sender = self._senders.get(claim.backend) or self.sender(claim.backend)
                if not is_observed(task_finished, sender, level):
                    return None
                result = results.of_claim(claim, self._registry.resolve(claim.task_path), self._process_name)
            except BaseException:
                # What made the job fail (a module that cannot be imported, say) may happen again here.
                return None
        return results.conclude(result, ended)
