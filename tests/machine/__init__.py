"""The machine: Hypothesis does to the store whatever can be done to it, and a model in plain Python says what must be.

model.py        what must be where, without a database; account.py: what the store has answered, added up
picture.py      what the database shows, in the model's terms; clock.py: time passes
sessions.py     transactions of others that stay open
stage.py        what all rules share, and the checks after every step
production.py   rules: enqueue, dispatch, tick           work.py    rules: claim, settle, give back
care.py         rules: processes die, maintenance        hands.py   rules: retry, discard, run now, pause
test_machine.py all of them, on each database
"""
