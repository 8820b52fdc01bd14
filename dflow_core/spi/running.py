"""Which instance the calling thread works for, for functions that ask while they run.

Kept with the thread's context and not with the process: a process may run several instances, and several graphs inline.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from dflow_core.spi.flow_func import FuncParams

_params: ContextVar[FuncParams | None] = ContextVar("dflow_running_instance", default=None)
_AS_IT_IS: contextlib.nullcontext[None] = contextlib.nullcontext()


def running() -> FuncParams | None:
    """Node, instance and device of the function that this thread is in; None where it is in none.

    A thread that a function starts is told by handing the object over.
    """
    return _params.get()


def set_running(params: FuncParams | None) -> None:
    """Say which instance this thread works for from now on; for threads of executors."""
    _params.set(params)


def running_as(params: FuncParams | None) -> contextlib.AbstractContextManager[None]:
    """Say which instance this thread works for, while this is entered."""
    return _AS_IT_IS if _params.get() is params else _entered(params)


@contextlib.contextmanager
def _entered(params: FuncParams | None) -> Iterator[None]:
    token = _params.set(params)
    try:
        yield
    finally:
        _params.reset(token)
