"""The public path of the `recurring` decorator: `from steady_queue.recurring_task import recurring`."""

from steady_queue.recurring.definitions import recurring

__all__ = ["recurring"]
