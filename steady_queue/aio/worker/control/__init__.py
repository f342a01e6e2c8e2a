"""Control of running tasks.

timed_calls.py      gives the call of a task a deadline, and ends it with TaskTimeout
timeouts.py         cancels or reports jobs that have run longer than their timeout
cancellations.py    cancels running tasks when that is requested
stacks.py           the current stack of a running job as text
live_stacks.py      the same for a person who asks for it
"""
