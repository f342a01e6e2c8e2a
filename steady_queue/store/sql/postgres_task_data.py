"""PostgreSQL: what a running task stores, each operation as one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.store.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.store.job import Claim
    from steady_queue.store.operations.task_data import Report


class PostgresTaskData:
    """See `SingleStatements`."""

    def save_task_data(self, claim: Claim, column: str, text: str) -> Statement:
        return Statement(
            "WITH mine AS (SELECT job_id FROM steady_queue_claimedexecution"
            " WHERE job_id = $1::uuid AND claim_id = $2::uuid FOR SHARE)"
            f" UPDATE steady_queue_job j SET {column} = $3::text FROM mine WHERE j.id = mine.job_id RETURNING j.id",
            (claim.job_id, claim.claim_id, text),
            returns="u",
        )

    def write_reports(self, reports: Sequence[Report], log_characters: int) -> Statement:
        # Rows are locked by the first part, which waits for none; the update would wait.
        return Statement(
            "WITH held AS MATERIALIZED (SELECT j.id, g.claim_id, g.progress, g.log"
            " FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[]) AS g(job_id, claim_id, progress, log)"
            " JOIN steady_queue_job j ON j.id = g.job_id WHERE j.last_claim_id = g.claim_id"
            " OR EXISTS (SELECT 1 FROM steady_queue_claimedexecution c"
            " WHERE c.job_id = g.job_id AND c.claim_id = g.claim_id) FOR NO KEY UPDATE OF j SKIP LOCKED)"
            " UPDATE steady_queue_job j SET progress = COALESCE(h.progress, j.progress),"
            " log = CASE WHEN h.log IS NULL THEN j.log"
            f" ELSE right(COALESCE(j.log || chr(10), '') || h.log, {log_characters:d}) END"
            " FROM held h WHERE j.id = h.id RETURNING h.claim_id",
            tuple(list(column) for column in zip(*reports, strict=True)),
            returns="u",
        )
