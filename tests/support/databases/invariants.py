"""What must always be true of the queue's rows. Every database test ends with this; so do benchmarks and storms."""

from __future__ import annotations

from steady_queue.db.aliases import django_driver
from tests.support.databases.tables import EXECUTIONS, query

_STATES = " UNION ALL ".join(f"SELECT job_id FROM steady_queue_{table}" for table in EXECUTIONS)
_HOLDS = "SELECT job_id FROM steady_queue_readyexecution UNION ALL SELECT job_id FROM steady_queue_claimedexecution"
_WAITS = " UNION ALL ".join(f"SELECT job_id FROM steady_queue_{table}" for table in EXECUTIONS[:3])

RULES = {
    "requests to cancel jobs that were cancelled": """
        SELECT job_id FROM steady_queue_cancellation
        WHERE job_id IN (SELECT job_id FROM steady_queue_failedexecution WHERE kind = 2)""",
    "jobs that are neither finished nor in any state (lost)": f"""
        SELECT j.id FROM steady_queue_job j WHERE j.finished_at IS NULL
        AND j.id NOT IN (SELECT job_id FROM ({_STATES}) s)""",
    "jobs in two states": f"SELECT job_id FROM ({_STATES}) s GROUP BY job_id HAVING count(*) > 1",
    "finished jobs that are still in a state": f"""
        SELECT j.id FROM steady_queue_job j WHERE j.finished_at IS NOT NULL
        AND j.id IN (SELECT job_id FROM ({_STATES}) s)""",
    "execution rows without a job": f"""
        SELECT job_id FROM ({_STATES}) s WHERE job_id NOT IN (SELECT id FROM steady_queue_job)""",
    "slots whose job is neither ready nor claimed (leaked)": f"""
        SELECT job_id FROM steady_queue_semaphore WHERE job_id NOT IN (SELECT job_id FROM ({_HOLDS}) h)""",
    "limited jobs that are ready or claimed without a slot": f"""
        SELECT id FROM steady_queue_job WHERE concurrency_key IS NOT NULL AND id IN (SELECT job_id FROM ({_HOLDS}) h)
        AND id NOT IN (SELECT job_id FROM steady_queue_semaphore)
        AND id NOT IN (SELECT c.job_id FROM steady_queue_claimedexecution c JOIN steady_queue_job o ON o.id = c.job_id
        WHERE o.overrun_after IS NOT NULL AND c.claimed_at <= [o.overrun_after ago])""",
    "keys with more slots taken, except those of run_now(), than the largest limit of their jobs": """
        SELECT s.concurrency_key FROM steady_queue_semaphore s JOIN steady_queue_job j ON j.id = s.job_id
        WHERE s.slot <= 1073741824 GROUP BY s.concurrency_key HAVING count(*) > max(j.concurrency_limit)""",
    "execution rows whose priority, queue or lane differ from their job's": """
        SELECT j.id FROM steady_queue_readyexecution r JOIN steady_queue_job j ON j.id = r.job_id
        WHERE r.priority <> j.priority OR r.queue_name <> j.queue_name OR r.lane <> j.lane""",
    "waiting jobs that do not have their unique key": f"""
        SELECT j.id FROM steady_queue_job j WHERE j.unique_key IS NOT NULL
        AND j.id IN (SELECT job_id FROM ({_WAITS}) w) AND j.id NOT IN (SELECT job_id FROM steady_queue_uniquekey)""",
    "running jobs that have lost a unique key which they hold until they end": """
        SELECT j.id FROM steady_queue_job j WHERE j.unique_key IS NOT NULL AND j.unique_until = 1
        AND j.id IN (SELECT job_id FROM steady_queue_claimedexecution)
        AND j.id NOT IN (SELECT job_id FROM steady_queue_uniquekey)""",
    "unique keys of other jobs than those that need them": f"""
        SELECT u.unique_key FROM steady_queue_uniquekey u WHERE u.held_until IS NULL
        AND u.job_id NOT IN (SELECT job_id FROM ({_WAITS}) w)
        AND u.job_id NOT IN (SELECT job_id FROM steady_queue_claimedexecution)""",
    "jobs that wait for their first attempt and will expire, without an expiry row": f"""
        SELECT j.id FROM steady_queue_job j WHERE j.expires_at > [now] AND j.attempts = 0
        AND j.id IN (SELECT job_id FROM ({_WAITS}) w) AND j.id NOT IN (SELECT job_id FROM steady_queue_expiry)""",
    "blocked rows and slots whose concurrency key is not that of their job": """
        SELECT j.id FROM steady_queue_job j JOIN (
        SELECT job_id, concurrency_key FROM steady_queue_blockedexecution
        UNION ALL SELECT job_id, concurrency_key FROM steady_queue_semaphore) k ON k.job_id = j.id
        WHERE j.concurrency_key IS NULL OR j.concurrency_key <> k.concurrency_key""",
    "jobs whose log is longer than what is kept of it": "SELECT id FROM steady_queue_job WHERE length(log) > 65536",
    "jobs with fewer worker names than attempts": """
        SELECT id FROM steady_queue_job
        WHERE (attempts > 0 AND worker_ids IS NULL) OR (attempts = 0 AND worker_ids IS NOT NULL)""",
    "statistics that are neither a minute of a process nor an hour without one": """
        SELECT id FROM steady_queue_taskstatistics WHERE CASE WHEN [is nil] THEN 3600 ELSE 60 END <> seconds""",
    "statistics with negative numbers, or with a longest time that exceeds the sum": """
        SELECT id FROM steady_queue_taskstatistics
        WHERE started < 0 OR finished < 0 OR failed < 0 OR retried < 0
        OR longest_run_milliseconds < 0 OR longest_run_milliseconds > run_milliseconds
        OR waits < 0 OR (waits = 0 AND wait_milliseconds > 0)
        OR longest_wait_milliseconds < 0 OR longest_wait_milliseconds > wait_milliseconds""",
    "jobs that were retried more often than they were attempted": """
        SELECT id FROM steady_queue_job WHERE retries > attempts""",
}


def violations(alias: str) -> list[str]:
    """Every rule that is broken, with the rows that break it."""
    sql = django_driver(alias).sql
    nil = "process_id = '00000000-0000-0000-0000-000000000000'"
    expressions = {
        "[o.overrun_after ago]": sql.microseconds_ago("o.overrun_after"),
        "[now]": sql.now,
        "[is nil]": nil if sql.can_notify else nil.replace("-", ""),
    }
    rules = dict(RULES)
    for name, expression in expressions.items():
        rules = {rule: text.replace(name, expression) for rule, text in rules.items()}
    # First all of them with one statement: some tests look after every step.
    if not any(query(alias, f"SELECT {', '.join(f'EXISTS ({text})' for text in rules.values())}")[0]):
        return []
    found = []
    for rule, text in rules.items():
        if rows := query(alias, text):
            found.append(f"{rule}: {[str(row[0]) for row in rows[:5]]}")
    return found
