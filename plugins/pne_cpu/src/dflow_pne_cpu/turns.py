"""How the system shares CPUs among models: in long turns, so that each finds its weights in the cache again."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct

_SLICE = 0.05
"""Seconds of a turn; a call of a model that computes for longer is interrupted so seldom that it does not matter."""
_SETATTR = {"x86_64": 314, "aarch64": 274}
_ATTRIBUTES = struct.Struct("<IIQiIQQQ")


def take_long_turns() -> None:
    """Have the calling thread, and those that it starts from now on, compute in long turns.

    Where more models compute than there are CPUs, each turn costs the refilling of caches. Threads with short turns
    still get a CPU when they have something to do. Systems that know no length of turns (Linux before 6.12) are asked
    for their batch policy alone; where that is forbidden nothing changes.
    """
    number = _SETATTR.get(platform.machine())
    if number is not None:
        attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_BATCH, 0, 0, 0, int(_SLICE * 1e9), 0, 0)
        if ctypes.CDLL(None).syscall(number, 0, attributes, 0) == 0:
            return
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
