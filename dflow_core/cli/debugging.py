"""A debugger around the functions of a graph that runs in this process."""

from __future__ import annotations

import pdb
from collections.abc import Callable, Sequence

from dflow_core.message import FlowMsg
from dflow_core.spi import FlowFunc, FuncParams, RunContext

SKIPPED = ("dflow_core", "dflow_core.*", "numpy", "numpy.*", "cloudpickle", "cloudpickle.*", "contextlib")
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

    def init(self, params: FuncParams) -> None:
        self._func.init(params)

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        self._debug(lambda: self._func.proc(context, inputs))

    def deadline(self) -> float | None:
        return self._func.deadline()

    def on_timer(self, context: RunContext) -> None:
        self._debug(lambda: self._func.on_timer(context))

    def on_stop(self, context: RunContext) -> None:
        self._func.on_stop(context)

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
