"""What a hook, a subscriber or a receiver is called where it is told of."""

from __future__ import annotations


def name_of(call: object) -> str:
    """Its name, or how it shows itself; whatever it is, this must not fail."""
    try:
        return str(getattr(call, "__qualname__", None) or repr(call))
    except BaseException:
        return f"a {type(call).__qualname__} that cannot be shown"
