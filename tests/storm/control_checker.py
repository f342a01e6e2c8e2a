"""The checker of the storm of retries, timeouts, cancellation, expiry, uniqueness and transactional tasks."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from steady_queue import arguments
from steady_queue.store.job import FailureKind
from tests.storm import control_tasks
from tests.storm.checker import PROCESS_ERRORS, Checker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.storm.attempt_log import Attempt
    from tests.storm.job_records import Record

MAX_ATTEMPTS = {"takes_too_long": 2}
#: The errors with which each task may be out of attempts, beside those of lost processes.
OWN_ERRORS = {
    "fails_at_first": {"RuntimeError"},
    "asks_for_a_retry": {"RetryLater"},
    "fails_once_alone": {"RuntimeError"},
    "takes_too_long": {"TaskTimeout"},
}


class ControlChecker(Checker):
    """Checks one storm of `control_tasks`. A job may run several times, each for a reason and within its limits."""

    # Tasks fail here, and Django logs their tracebacks.
    never: ClassVar[Sequence[str]] = ("had no owner", "failed and is repeated", "is not written")

    def _job(self, record: Record, attempts: Sequence[Attempt]) -> Iterator[str]:
        yield from self._order(attempts)
        most = MAX_ATTEMPTS.get(record.task, control_tasks.MAX_ATTEMPTS)
        if record.attempts > most:
            yield f"has {record.attempts} attempts, {most} are allowed"
        if record.finished is not None and record.failed is not None:
            yield "has finished and failed"
        elif record.finished is not None:
            self._sums.finished += 1
            yield from self._ended_once(record, attempts)
        elif record.failed is not None:
            self._sums.failed[record.failure.name.lower() if record.failure else record.error] += 1
            yield from self._not_finished(record, attempts, most)
        else:
            yield "has not ended"

    def _may_be_missing(self, job: str) -> bool:
        """Whether a later task with the same unique key may have replaced it: only one that waited, perhaps again.

        A task that has ended waits again if its process was killed before the outcome was written.
        """
        if self._enqueued[job] != "is_debounced":
            return False
        ended = [attempt for attempt in self._attempts.get(job, ()) if attempt.ended is not None]
        return all(self._lives[attempt.pid].killed is not None for attempt in ended)

    def _order(self, attempts: Sequence[Attempt]) -> Iterator[str]:
        """An attempt begins only when the one before is over, and never after one that has ended."""
        for earlier, later in pairwise(attempts):
            if self._over(earlier) > later.began:
                yield f"began in {later.pid} although it still ran in {earlier.pid}: {earlier} {later}"

    def _ended_once(self, record: Record, attempts: Sequence[Attempt]) -> Iterator[str]:
        # A process may be killed between the end of a task and the commit of its outcome: then it ends again.
        if not any(attempt.nonce == record.value and attempt.ended is not None for attempt in attempts):
            yield f"has finished with the value of no attempt that ended: {record}"
        if attempts and attempts[-1].nonce != record.value:
            yield f"began again after it had finished: {attempts[-1]}"

    def _not_finished(self, record: Record, attempts: Sequence[Attempt], most: int) -> Iterator[str]:
        late = [attempt for attempt in attempts if record.failed is not None and attempt.began > record.failed]
        if late:
            yield f"began after it had failed: {record} {late[0]}"
        match record.failure:
            case FailureKind.EXHAUSTED:
                if record.attempts != most:
                    yield f"is out of attempts with {record.attempts} of {most}"
                if record.error not in {*OWN_ERRORS.get(record.task, set()), *PROCESS_ERRORS}:
                    yield f"is out of attempts with another error: {record.error}: {record.message}"
            case FailureKind.CANCELLED:
                # A task that waits again is displaced by the one that has its unique key meanwhile.
                is_displaced = record.task == "is_debounced" and record.error == "DuplicateTask"
                if record.error != "TaskCancelled" and not is_displaced:
                    yield f"was cancelled with another error: {record.error}: {record.message}"
            case FailureKind.EXPIRED:
                if attempts:
                    yield f"has expired although it had begun: {attempts[0]}"
            case _:
                if record.error not in ("GiveUp", *PROCESS_ERRORS):
                    yield f"failed by itself: {record.error}: {record.message}"

    def _limits(self) -> Iterator[str]:
        yield from super()._limits()
        running: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
        for record in self._records.values():
            if record.unique_key is not None and record.task == "runs_alone_by_its_key":
                for attempt in self._attempts[record.id]:
                    running[record.unique_key].append((attempt.began, self._over(attempt), record.id))
        for key, attempts in running.items():
            for (_, over, first), (began, _, second) in pairwise(sorted(attempts)):
                if began < over:
                    yield f"{first} and {second} ran at once, with the same unique key {key}"


def find_wrong_effects(alias: str, records: Mapping[str, Record]) -> list[str]:
    """Transactional tasks whose rows do not agree with their state: one row if it has finished, none otherwise."""
    from tests.shop.models import Contact

    written = Counter(
        Contact.objects.using(alias)
        .filter(account_id__gte=control_tasks.FIRST_NUMBER)
        .values_list("account_id", flat=True)
    )
    wrong = []
    for record in records.values():
        if record.task == "writes_once":
            number = int(arguments.view_text(record.arguments)[0][0])
            has_finished = record.finished is not None
            if written[number] != has_finished:
                wrong.append(f"{record.id} wrote {written[number]} rows, {has_finished=}")
    return wrong
