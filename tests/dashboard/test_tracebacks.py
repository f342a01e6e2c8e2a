"""Short tracebacks have the calls of the project only."""

from __future__ import annotations

from steady_queue.dashboard.jobs.tracebacks import shorten

FULL = """Traceback (most recent call last):
  File "/srv/venv/lib/python3.13/site-packages/steady_queue/aio/worker/executor.py", line 10, in run
    await task()
          ~~~~^^
  File "/usr/lib/python3.13/asyncio/tasks.py", line 5, in wait
    return 1
  File "/srv/shop/tasks.py", line 3, in send
    connect()
    ~~~~~~~^^
  File "<frozen importlib._bootstrap>", line 1, in _load
ValueError: first line
second line

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/shop/mail.py", line 8, in connect
    raise Down
shop.Down: it is down"""


def test_calls_of_libraries_are_left_out() -> None:
    assert (
        shorten(FULL)
        == """Traceback (most recent call last):
  (2 calls of libraries)
  File "/srv/shop/tasks.py", line 3, in send
    connect()
    ~~~~~~~^^
  (1 call of libraries)
ValueError: first line
second line

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/shop/mail.py", line 8, in connect
    raise Down
shop.Down: it is down"""
    )


def test_a_traceback_without_calls_of_the_project_stays_as_it_is() -> None:
    only = "\n".join(FULL.split("\n")[:4])
    for text in (only, "", "ValueError", "…cut\nValueError"):
        assert shorten(text) == text
