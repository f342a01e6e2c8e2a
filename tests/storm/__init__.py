"""The storm: workers are killed, told to stop and frozen at random while tasks run, and nothing may be lost or doubled.

tasks.py       what runs, and tells the ledger
ledger.py      a file that survives any fault: who began what, and how that ended
worker.py      one `manage.py steady_queue --async`; crew.py: two of them, and what was done to each
driver.py      the seed's faults and tasks, and the calm after them
records.py     what the database says became of the jobs
judgement.py   what the promises allow; limits.py: how many of a key ran at once
storm.py       all of this, once
report.py      the table of `python -m tests.storm`; servers.py: its databases
"""
