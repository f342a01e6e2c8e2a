"""The public path of the errors of tasks whose process was lost."""

from steady_queue.errors import ProcessExitError, ProcessMissingError, ProcessPrunedError

__all__ = ["ProcessExitError", "ProcessMissingError", "ProcessPrunedError"]
