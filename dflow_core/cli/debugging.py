"""A debugger around the functions of a graph that runs in this process."""

from __future__ import annotations

import pdb
from collections.abc import Callable, Sequence

from dflow_core.errors import DflowError
from dflow_core.message import FlowMsg, MsgInfo
from dflow_core.spi import FlowFunc, FuncParams, InputQueue, RunContext

SKIPPED = (
    "dflow_core", "dflow_core.*", "numpy", "numpy.*", "cloudpickle", "cloudpickle.*", "contextlib", "inspect",
    "threading",
)
"""Modules it does not stop in, so that its first stop is the user's function."""


def make_debugger() -> pdb.Pdb:
    """The debugger of the standard library, at this terminal."""
    return pdb.Pdb(skip=SKIPPED)


def post_mortem(debugger: pdb.Pdb, error: BaseException) -> None:
    """Look around where an exception was raised."""
    debugger.reset()
    debugger.interaction(None, error.__traceback__)


class Stopping(FlowFunc):
    """A function that is run under a debugger, which stops at the first line of the user's code.

    Args:
        func: The function.
        debugger: The debugger.
    """

    def __init__(self, func: FlowFunc, debugger: pdb.Pdb) -> None:
        self._func, self._debugger = func, debugger
        self.takes_gaps = func.takes_gaps

    def init(self, params: FuncParams) -> None:
        self._func.init(params)

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        self._debug(lambda: self._func.proc(context, inputs))

    def proc_queues(self, context: RunContext, queues: Sequence[InputQueue]) -> None:
        self._debug(lambda: self._func.proc_queues(context, queues))

    @property
    def names_answers(self) -> bool:
        return self._func.names_answers

    def failure(self) -> DflowError | None:
        return self._func.failure()

    def deadline(self) -> float | None:
        return self._func.deadline()

    def on_timer(self, context: RunContext) -> None:
        self._debug(lambda: self._func.on_timer(context))

    def on_exception(self, context: RunContext, code: int, user_context_id: int, head: MsgInfo) -> None:
        self._debug(lambda: self._func.on_exception(context, code, user_context_id, head))

    def on_lost(self, trans_id: int) -> None:
        self._func.on_lost(trans_id)

    def on_cancel(self, context: RunContext, is_cancelled: Callable[[int], bool]) -> None:
        self._func.on_cancel(context, is_cancelled)

    def on_stop(self, context: RunContext) -> None:
        self._func.on_stop(context)

    def reset(self) -> None:
        self._func.reset()

    def settle(self) -> None:
        self._func.settle()

    def close(self) -> None:
        self._func.close()

    def _debug(self, call: Callable[[], None]) -> None:
        self._debugger.runcall(call)
        if self._debugger.quitting:
            # It ends the call quietly, as if the function had returned nothing.
            raise KeyboardInterrupt


def stopping_at(node: str | None, debugger: pdb.Pdb) -> Callable[[str, FlowFunc], FlowFunc]:
    """What puts the functions of a node, or of all, under a debugger."""
    return lambda name, func: Stopping(func, debugger) if node in (None, name) else func
