"""The checker: compares the attempt log, the database and the faults of the driver with what the guarantees allow.

A job has finished, once, by the attempt whose nonce it returned; or it has failed because of its process. It may begin
again only after an attempt that was cancelled, in a process that had a reason to stop it. A job that was
reported as failed never runs on for longer than a moment; frozen time does not count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, ClassVar

from tests.storm.concurrency_peaks import peaks
from tests.storm.worker_program import LEASE_SECONDS, SHUTDOWN_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.storm.attempt_log import Attempt
    from tests.storm.job_records import Record
    from tests.storm.workers import WorkerLife

PROCESS_ERRORS = ("ProcessExitError", "ProcessPrunedError", "ProcessMissingError")
#: Seconds that a task may continue after its failure was written: until an event loop runs again, or a process exits.
MOMENT_SECONDS = 1.0
#: Seconds after a process was late or thawed within which the other processes may still fail its jobs.
AFTERMATH_SECONDS = 5.0
#: Seconds for each of the processes that stop at the same time, in addition to the time of the tasks.
STOP_SECONDS_EACH = 3.0
#: The exit status of a process that lost its lease.
LEASE_LOST_STATUS = 75
#: What a process logs when, on a busy machine, its heartbeats came too late.
LATE = ("lease lost after", "another process ended", "registered again")


@dataclass(slots=True)
class Findings:
    """The figures of one storm, and its violations."""

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


class Checker:
    """Checks one storm."""

    #: What no process may log.
    never: ClassVar[Sequence[str]] = ("Traceback", "had no owner")

    def __init__(
        self,
        enqueued: Mapping[str, str],
        records: Mapping[str, Record],
        attempts: Sequence[Attempt],
        lives: Sequence[WorkerLife],
        *,
        together: int = 2,
    ) -> None:
        """`together`: how many processes there were at a time."""
        self._stop_within = SHUTDOWN_SECONDS + STOP_SECONDS_EACH * together
        self._enqueued = enqueued
        self._records = records
        self._lives = {life.pid: life for life in lives}
        self._outputs = {life.pid: life.output for life in lives}
        self._late = {life.pid: life.logged_at(*LATE) for life in lives}
        self._attempts: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in attempts:
            self._attempts[attempt.job].append(attempt)
        self._sums = Findings(len(enqueued))

    def check(self) -> Findings:
        self._sums.violations += self._everything()
        return self._sums

    def _everything(self) -> Iterator[str]:
        for job in self._enqueued:
            if job not in self._records and not self._may_be_missing(job):
                yield f"{job} was enqueued and is lost"
        for record in self._records.values():
            attempts = self._attempts.pop(record.id, [])
            yield from (f"{record.id} {what}" for what in self._job(record, attempts))
            self._attempts[record.id] = attempts
        for job in self._attempts.keys() - self._records.keys():
            if self._may_be_missing(job):
                continue
            yield f"{job} ran and is in no table"
        yield from self._limits()
        for life in self._lives.values():
            yield from (f"process {life.pid} {what}" for what in self._process(life))

    def _may_be_missing(self, job: str) -> bool:
        return False

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
        """The reason why a process stopped a task at that time."""
        life = self._lives[pid]
        # It was frozen past its lease, and every task of that lease is stopped within a moment.
        if any(
            to - since >= LEASE_SECONDS and to - MOMENT_SECONDS <= at <= to + MOMENT_SECONDS
            for since, to in life.freezes
        ):
            return "frozen"
        if life.terminated is not None and life.terminated <= at:
            return "terminated"
        return "late" if any(abs(at - late) <= MOMENT_SECONDS for late in self._late[pid]) else None

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
            if ran_on > MOMENT_SECONDS:
                yield f"ran on in {attempt.pid} for {ran_on:.2f} s after it was reported as failed: {record} {attempt}"

    def _is_explained(self, record: Record, attempts: Sequence[Attempt]) -> bool:
        """Whether the process that had the job had exited, was terminated, frozen or late before the job was failed."""
        pid = record.pid if record.pid is not None else attempts[-1].pid if attempts else None
        failed = record.failed
        if pid is None or failed is None:
            return record.error == "ProcessMissingError"
        life = self._lives[pid]
        if life.exited is not None:
            self._sums.reported = max(self._sums.reported, failed - life.exited)
        return (
            any(moment is not None and moment <= failed for moment in (life.killed, life.terminated, life.exited))
            or any(
                to - since >= LEASE_SECONDS and since <= failed <= to + AFTERMATH_SECONDS for since, to in life.freezes
            )
            or any(abs(failed - late) <= AFTERMATH_SECONDS for late in self._late[pid])
        )

    def _ran_on(self, record: Record, attempt: Attempt) -> float:
        """For how long an attempt went on after its job was reported as failed, frozen time not counted."""
        since, until = max(attempt.began, record.failed or inf), self._over(attempt)
        if until <= since:
            return 0.0
        return max(0.0, until - since - self._lives[attempt.pid].frozen_between(since, until))

    # -- times --------------------------------------------------------------------------------------------------------

    def _over(self, attempt: Attempt) -> float:
        """When an attempt was over: by its own log entry, or with its process."""
        life = self._lives[attempt.pid]
        return next((at for at in (attempt.over, life.killed, life.exited) if at is not None), inf)

    def _held_until(self, record: Record, attempt: Attempt) -> float:
        """Until when an attempt held its slot. A job reported as failed has freed it, even if it still runs."""
        return min(self._over(attempt), inf if record.failed is None else record.failed)

    # -- processes ----------------------------------------------------------------------------------------------------

    def _process(self, life: WorkerLife) -> Iterator[str]:
        output = self._outputs[life.pid]
        slept = any(to - since >= LEASE_SECONDS for since, to in life.freezes)
        may_leave_with = {
            0: life.terminated is not None,
            LEASE_LOST_STATUS: life.terminated is not None or slept or bool(self._late[life.pid]),
            -9: life.killed is not None,
            # Before the command has its signal handler, or, for a second signal, after the interpreter removed it.
            -15: life.terminated is not None and (" started" not in output or " stopped: " in output),
        }
        if life.code is None or not may_leave_with.get(life.code, False):
            yield f"exited with {life.code}: {output[-1000:]}"
        yield from (f"logged {text!r}: {output[-2000:]}" for text in self.never if text in output)
        if life.is_stuck:
            yield f"did not stop: {output[-2000:]}"
        if life.terminated is not None and life.exited is not None and life.killed is None and " started" in output:
            took = life.exited - life.terminated - life.frozen_between(life.terminated, life.exited)
            self._sums.stop = max(self._sums.stop, took)
            if took > self._stop_within:
                yield f"took {took:.1f} s to stop"
