"""Keeps the thread's alternate signal stack as it was.

OpenVINO's CPU plug-in gives the thread that loads it an alternate signal stack (for the large register state of AMX),
and unmaps that memory when it is unloaded, in whichever thread that happens. If it is another one, the first thread is
left with a signal stack that is gone, and the next signal it gets, a Ctrl-C say, kills the process. So the stack the
thread had before is put back as soon as the plug-in is loaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator


class _Stack(ctypes.Structure):
    """`stack_t` of <signal.h> on Linux."""

    _fields_ = (("pointer", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextlib.contextmanager
def signal_stack_kept() -> Iterator[None]:
    """Put the calling thread's alternate signal stack back when the block ends."""
    if sys.platform != "linux":
        yield
        return
    libc = ctypes.CDLL(None)
    before = _Stack()
    known = libc.sigaltstack(None, ctypes.byref(before)) == 0
    try:
        yield
    finally:
        if known:
            libc.sigaltstack(ctypes.byref(before), None)
