"""What people change.

job_actions.py     retry, discard, run now
cancellation.py    end jobs that wait, and request that jobs that run are stopped
corrections.py     retry a job with other arguments
bulk_actions.py    retry, discard and cancel all jobs that match a filter
cleanup.py         delete jobs that ended long ago
queues.py          names, size, latency, pause and resume
"""
