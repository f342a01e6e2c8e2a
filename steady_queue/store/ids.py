"""Job ids: UUIDv7 with a counter inside the millisecond.

Made by the client, so an id is known before its row exists: enqueue needs no RETURNING, and an enqueue that is sent
again after a lost reply cannot store the job twice. Ids of one process rise strictly; between processes clocks decide.
"""

from __future__ import annotations

import os
import threading
import time
from uuid import UUID, SafeUUID, uuid4

_COUNTER_BITS = 26
_TAIL_BYTES = 6
_SEED_BYTES = 4
_lock = threading.Lock()
_last_millisecond = 0
_counter = 0

_new = object.__new__
_set = object.__setattr__
_unknown = SafeUUID.unknown


def uuid_of(number: int) -> UUID:
    """The UUID with this number, which must be right."""
    # UUID's constructor validates for 1 µs what is right by construction; bulk enqueue cannot afford it.
    made = _new(UUID)
    _set(made, "int", number)
    _set(made, "is_safe", _unknown)
    return made


def new_job_ids(count: int) -> list[UUID]:
    """`count` new ids, rising, all greater than every id this process made before."""
    global _last_millisecond, _counter
    noise = os.urandom(_TAIL_BYTES * count + _SEED_BYTES)
    from_bytes = int.from_bytes
    with _lock:
        millisecond = max(_last_millisecond, time.time_ns() // 1_000_000)
        if millisecond > _last_millisecond or _counter + count >= 1 << _COUNTER_BITS:
            millisecond = max(millisecond, _last_millisecond + 1)
            # Its first bit stays 0, to leave room for the ids of this millisecond.
            _counter = from_bytes(noise[-_SEED_BYTES:], "big") >> 8 * _SEED_BYTES - _COUNTER_BITS + 1
        _last_millisecond = millisecond
        first = _counter + 1
        _counter += count
    head = millisecond << 80 | 0x7 << 76 | 0b10 << 62
    return [
        uuid_of(head | (n >> 14) << 64 | (n & 0x3FFF) << 48 | from_bytes(noise[at : at + _TAIL_BYTES], "big"))
        for n, at in zip(range(first, first + count), range(0, _TAIL_BYTES * count, _TAIL_BYTES), strict=True)
    ]


def new_job_id() -> UUID:
    return new_job_ids(1)[0]


def new_claim_id() -> UUID:
    return uuid4()
