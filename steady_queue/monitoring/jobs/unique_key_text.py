"""The unique key of a task as it is shown.

Without a key of its own, a task has the digest of all its arguments. Whoever sees it can check a guess at them: 10,000
guesses find a PIN. So it is not shown. A key that the project gives, or computes by a function of its own, is shown.
"""

from __future__ import annotations

from steady_queue.jobs.definition.uniqueness import has_computed_key, is_like_digest
from steady_queue.jobs.registry import registry

#: Stands for the digest.
ALL_ARGUMENTS = "all arguments"


def show_unique_key(key: str, task_path: str, arguments: str | None) -> str:
    """Return the key, or words if it is the digest. `arguments` are as stored; None if only a part is known."""
    return ALL_ARGUMENTS if key and _may_be_digest(key, task_path, arguments) else key


def _may_be_digest(key: str, task_path: str, arguments: str | None) -> bool:
    if not is_like_digest(key, task_path):
        return False
    try:
        task = registry.resolve(task_path)
        # A function of the project may return a digest as well. But the call may have had another option `unique`.
        has_own_key = getattr(getattr(task, "unique", None), "key", None) is not None
        return not has_own_key or arguments is None or has_computed_key(task, key, arguments)
    except Exception:  # the import of the project's module, and the stored arguments, may raise anything
        return True
