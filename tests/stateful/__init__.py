"""The state machine: Hypothesis runs random operations on the store, and a model in plain Python predicts the result.

model.py           the expected state, without a database
model_job.py       one job of it
model_keys.py      its unique keys
model_ticks.py     its records of ticks
claim_history.py   the claims that the store returned, and their ends
snapshot.py        the state of the database, in the terms of the model
clock.py           the time of the database and of the model
base.py            what all rules share, and the checks after every step
enqueue_rules.py   rules: enqueue, dispatch, tick
worker_rules.py    rules: claim, settle, release
process_rules.py   rules: processes that end, maintenance
action_rules.py    rules: retry, discard, run now, cancel, pause
unique_rules.py    rules: enqueue unique jobs, sweep keys and expired jobs
test_store_matches_model.py   all of them, on each database
"""
