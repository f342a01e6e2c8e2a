"""Short tracebacks: without the calls of libraries, so that those of the project are seen first."""

from __future__ import annotations

import re

#: The files of libraries: installed packages, the standard library, and the parts of Steady Queue that call tasks.
_LIBRARY = re.compile(
    r'^\s*File "(?:<frozen |[^"]*[/\\](?:site-packages|dist-packages|lib[/\\]python\d[^/\\"]*'
    r"|steady_queue[/\\](?:aio|db|jobs|testing))[/\\])"
)
_FRAME = re.compile(r'^\s*File "')


def shorten(traceback: str) -> str:
    """Return a traceback without the calls of libraries; all of it if no other call is left."""
    kept: list[str] = []
    left_out = 0
    has_own = False
    for block in _blocks(traceback):
        if _LIBRARY.match(block[0]):
            left_out += 1
            continue
        has_own |= bool(_FRAME.match(block[0]))
        if left_out:
            kept.append(_describe(left_out))
            left_out = 0
        kept += block
    if left_out:
        kept.append(_describe(left_out))
    return "\n".join(kept) if has_own else traceback


def _blocks(traceback: str) -> list[list[str]]:
    """Return the lines, those of one call together."""
    blocks: list[list[str]] = []
    indent = 0
    for line in traceback.split("\n"):
        own = len(line) - len(line.lstrip())
        if _FRAME.match(line):
            indent = own
            blocks.append([line])
        elif blocks and _FRAME.match(blocks[-1][0]) and line.strip() and own > indent:
            blocks[-1].append(line)  # the source of the call, and markers below it
        else:
            blocks.append([line])
    return blocks


def _describe(count: int) -> str:
    return f"  ({count} {'call' if count == 1 else 'calls'} of libraries)"
