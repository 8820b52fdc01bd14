"""What becomes of a process that user code has forked off a node and that comes back into the executor.

It owns nothing here: the messages, the queues and the counters are its parent's. So it ends, like any process whose
code is at its end, and closes nothing on the way.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn

from dflow_core.errors import ClosedError


def end_fork(error: BaseException | None) -> NoReturn:
    """End this process with the exit code its code asks for.

    Args:
        error: What the user's code raised; None if it returned.
    """
    code = 0
    if isinstance(error, ClosedError):
        error = None  # it came back and found that nothing here is its own
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    elif error is not None:
        code = 1
        traceback.print_exception(type(error), error, error.__traceback__)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
