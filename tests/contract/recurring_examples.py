"""The seed's recurring tasks. Importing this module registers them: tests do so with a registry of their own."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from steady_queue.recurring_task import recurring
from tests.contract.examples import task


@recurring(schedule="0 12 * * *", key="rot the brains at noon")
@task()
def ballerina() -> None:
    print("capuccina")  # noqa: T201


# There the first parameter is named `from`, which Python does not allow, and counts from ten up to five.
@recurring(schedule="0 12 * * *", args=(5, 10), kwargs={"name": "Sahur"}, key="rot the brains at noon")
@task()
def countdown_greeting(start: int, to: int, name: str = "Michael") -> None:
    for i in range(start, to):
        print(i)  # noqa: T201

    print(f"Hello, {name}!")  # noqa: T201


@recurring(schedule="0 10 * * *", args=("Alice",), key="greet_alice")
@recurring(schedule="0 12 * * *", args=("Bob",), key="greet_bob")
@task()
def greet(name: str) -> None:
    print(f"Hello, {name}!")  # noqa: T201


@recurring(schedule="0 12 * * *", args=("A",), key="other", queue_name="reports", priority=7)
@recurring(schedule="0 12 * * *", args=("B",), key="own")
@task(queue_name="mail", priority=3)
def write(name: str) -> None:
    """Not of the seed: what it says of `queue_name` and `priority`."""
