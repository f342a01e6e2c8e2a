"""The judgement: what the promises allow of what the ledger, the database and the driver's account tell.

A job has finished, once, by the attempt whose nonce it returned; or it has failed because of its process. It may begin
again only after an attempt that felt its cancellation, in a process that had a reason to stop it. A job that was
reported as failed never runs on for longer than a moment, time asleep not counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from tests.storm.concurrency_peaks import peaks
from tests.storm.worker_program import SHUTDOWN, TRUST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.storm.attempt_log import Attempt
    from tests.storm.job_records import Record
    from tests.storm.workers import Life

PROCESS_ERRORS = ("ProcessExitError", "ProcessPrunedError", "ProcessMissingError")
#: Seconds that a task may go on after its failure was written: a loop has to come round, a process to end.
MOMENT = 1.0
#: Seconds after a process was late or woke within which the others may still act on it.
AFTERMATH = 5.0
#: Seconds for each of the processes that stop at the same time, beside the time of the tasks.
STOP_EACH = 3.0
#: The exit status of a process that no longer trusts its claims.
UNTRUSTED = 75
#: What a process says when, on a busy machine, its heartbeats came too late.
LATE = ("lease lost after", "another process ended", "registered again")
#: What none may say.
NEVER = ("Traceback", "had no owner")


@dataclass(slots=True)
class Judgement:
    """The sums of one storm, and all that must not be."""

    enqueued: int
    finished: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    rerun: Counter[str] = field(default_factory=Counter)
    #: The longest that a task ran on after it was reported as failed, in seconds.
    ran_on: float = 0.0
    #: The longest from the end of a process until its jobs were reported as failed, in seconds.
    reported: float = 0.0
    #: The longest from TERM to the end of a process, in seconds.
    stop: float = 0.0
    #: For each limit, the most that ran at once of a key that has it.
    at_once: dict[int, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


class Judge:
    """Judges one storm."""

    def __init__(
        self,
        enqueued: Sequence[str],
        records: Mapping[str, Record],
        attempts: Sequence[Attempt],
        lives: Sequence[Life],
        *,
        together: int = 2,
    ) -> None:
        """`together`: how many processes there were at a time."""
        self._stop_within = SHUTDOWN + STOP_EACH * together
        self._enqueued = enqueued
        self._records = records
        self._lives = {life.pid: life for life in lives}
        self._said = {life.pid: life.said for life in lives}
        self._late = {life.pid: life.said_at(*LATE) for life in lives}
        self._attempts: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in attempts:
            self._attempts[attempt.job].append(attempt)
        self._sums = Judgement(len(enqueued))

    def judge(self) -> Judgement:
        self._sums.violations += self._everything()
        return self._sums

    def _everything(self) -> Iterator[str]:
        for job in self._enqueued:
            if job not in self._records:
                yield f"{job} was enqueued and is lost"
        for record in self._records.values():
            attempts = self._attempts.pop(record.id, [])
            yield from (f"{record.id} {what}" for what in self._job(record, attempts))
            self._attempts[record.id] = attempts
        for job in self._attempts.keys() - self._records.keys():
            yield f"{job} ran and is in no table"
        yield from self._limits()
        for life in self._lives.values():
            yield from (f"process {life.pid} {what}" for what in self._process(life))

    def _limits(self) -> Iterator[str]:
        for peak in peaks(
            (record, attempt, self._held_until(record, attempt))
            for record in self._records.values()
            for attempt in self._attempts[record.id]
        ):
            self._sums.at_once[peak.limit] = max(self._sums.at_once.get(peak.limit, 0), len(peak.running))
            if peak.violation:
                yield peak.violation

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _job(self, record: Record, attempts: Sequence[Attempt]) -> Iterator[str]:
        yield from self._reruns(attempts)
        if record.finished is not None and record.failed is not None:
            yield "has finished and failed"
        elif record.finished is not None:
            self._sums.finished += 1
            yield from self._finished(record, attempts)
        elif record.failed is not None:
            self._sums.failed[record.error] += 1
            yield from self._failed(record, attempts)
        else:
            yield "has not ended"

    def _reruns(self, attempts: Sequence[Attempt]) -> Iterator[str]:
        for earlier, later in pairwise(attempts):
            if earlier.stopped is None or earlier.stopped > later.began:
                yield f"began in {later.pid} although it had not stopped in {earlier.pid}: {earlier} {later}"
            elif (cause := self._why_stopped(earlier.pid, earlier.stopped)) is None:
                yield f"was stopped in {earlier.pid} for no reason, and began again in {later.pid}"
            else:
                self._sums.rerun[cause] += 1

    def _why_stopped(self, pid: int, at: float) -> str | None:
        """What had befallen a process that stopped a task then."""
        life = self._lives[pid]
        # It was asleep past its time, and every task of that time is stopped within a moment.
        if any(to - since >= TRUST and to - MOMENT <= at <= to + MOMENT for since, to in life.freezes):
            return "frozen"
        if life.told is not None and life.told <= at:
            return "told to stop"
        return "late" if any(abs(at - late) <= MOMENT for late in self._late[pid]) else None

    def _finished(self, record: Record, attempts: Sequence[Attempt]) -> Iterator[str]:
        ended = [attempt for attempt in attempts if attempt.ended is not None]
        if len(ended) != 1:
            yield f"has finished, and ended {len(ended)} times"
        elif ended[0] is not attempts[-1]:
            yield "began again after it had ended"
        elif record.value != ended[0].nonce or record.pid != ended[0].pid:
            yield f"was settled by another attempt than the one that ended: {record} {ended[0]}"
        if record.attempts != 1:
            yield f"has finished with {record.attempts} attempts"

    def _failed(self, record: Record, attempts: Sequence[Attempt]) -> Iterator[str]:
        if record.error not in PROCESS_ERRORS:
            yield f"failed by itself: {record.error}: {record.message}"
            return
        if record.attempts != 1:
            yield f"has failed with {record.attempts} attempts"
        if not self._is_explained(record, attempts):
            yield f"was reported as failed although its process was well: {record}"
        for attempt in attempts:
            ran_on = self._ran_on(record, attempt)
            self._sums.ran_on = max(self._sums.ran_on, ran_on)
            if ran_on > MOMENT:
                yield f"ran on in {attempt.pid} for {ran_on:.2f} s after it was reported as failed: {record} {attempt}"

    def _is_explained(self, record: Record, attempts: Sequence[Attempt]) -> bool:
        """Whether the process that had the job was gone, told to stop, frozen or late before the job was failed."""
        pid = record.pid if record.pid is not None else attempts[-1].pid if attempts else None
        failed = record.failed
        if pid is None or failed is None:
            return record.error == "ProcessMissingError"
        life = self._lives[pid]
        if life.left is not None:
            self._sums.reported = max(self._sums.reported, failed - life.left)
        return (
            any(moment is not None and moment <= failed for moment in (life.killed, life.told, life.left))
            or any(to - since >= TRUST and since <= failed <= to + AFTERMATH for since, to in life.freezes)
            or any(abs(failed - late) <= AFTERMATH for late in self._late[pid])
        )

    def _ran_on(self, record: Record, attempt: Attempt) -> float:
        """For how long an attempt went on after its job was reported as failed, asleep not counted."""
        since, until = max(attempt.began, record.failed or inf), self._over(attempt)
        if until <= since:
            return 0.0
        return max(0.0, until - since - self._lives[attempt.pid].frozen_between(since, until))

    # -- times --------------------------------------------------------------------------------------------------------

    def _over(self, attempt: Attempt) -> float:
        """When an attempt was over: by its own word, or with its process."""
        life = self._lives[attempt.pid]
        return next((at for at in (attempt.over, life.killed, life.left) if at is not None), inf)

    def _held_until(self, record: Record, attempt: Attempt) -> float:
        """Until when an attempt held its slot. What was reported as failed has given it up, whatever still runs."""
        return min(self._over(attempt), inf if record.failed is None else record.failed)

    # -- processes ----------------------------------------------------------------------------------------------------

    def _process(self, life: Life) -> Iterator[str]:
        said = self._said[life.pid]
        slept = any(to - since >= TRUST for since, to in life.freezes)
        may_leave_with = {
            0: life.told is not None,
            UNTRUSTED: life.told is not None or slept or bool(self._late[life.pid]),
            -9: life.killed is not None,
            # Before the command has begun to listen for it, or, of a second one, when the interpreter no longer does.
            -15: life.told is not None and (" started" not in said or " stopped: " in said),
        }
        if life.code is None or not may_leave_with.get(life.code, False):
            yield f"left with {life.code}: {said[-1000:]}"
        yield from (f"said {text!r}: {said[-2000:]}" for text in NEVER if text in said)
        if life.is_stuck:
            yield f"did not stop: {said[-2000:]}"
        if life.told is not None and life.left is not None and life.killed is None and " started" in said:
            took = life.left - life.told - life.frozen_between(life.told, life.left)
            self._sums.stop = max(self._sums.stop, took)
            if took > self._stop_within:
                yield f"took {took:.1f} s to stop"
