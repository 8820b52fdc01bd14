"""Makes a recorded call of a node again, with the messages it had."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from dflow_core.errors import AbortError, NodeError
from dflow_core.executor.node.call_context import OutputSink
from dflow_core.executor.node.node_runner import NodeRunner
from dflow_core.executor.streams.runner import StreamRunner, TellFailure
from dflow_core.message import Alloc, FlowMsg
from dflow_core.recording import FailedCall

_MOST_VAIN = 100
"""Waits with a limit that may end in vain before a function is told that no more comes: it may wait for ever."""


class RecordedSource:
    """The messages that were taken from one input of a function with queues; then its end.

    Args:
        messages: The messages, in order.
        vain: Notes waits in vain of all inputs; gives whether there may be more.
    """

    def __init__(self, messages: Sequence[FlowMsg], vain: Callable[[bool], bool]) -> None:
        self.depth = max(1, len(messages))
        self.has_ended = False
        self._waiting = deque(messages)
        self._vain = vain
        self._is_over = False

    def take(self, timeout: float | None, lets_look: bool = False) -> FlowMsg | None:
        if self._waiting:
            self._vain(False)
            return self._waiting.popleft()
        if timeout is not None and self._vain(True):
            self._is_over = True
            return None  # at once: what it would wait for is known not to come
        self.has_ended = True
        raise AbortError("no more was recorded")

    def level(self) -> int:
        return len(self._waiting)

    def until(self, timeout: float | None) -> float | None:
        self._is_over = False
        return timeout

    def left(self, until: float | None) -> float | None:
        return 0.0 if self._is_over and until is not None else until


class _Vain:
    """Counts waits in vain since a message was taken."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, is_vain: bool) -> bool:
        self._count = self._count + 1 if is_vain else 0
        return self._count <= _MOST_VAIN


def repeat(runner: NodeRunner, call: FailedCall, sink: OutputSink, alloc: Alloc, tell: TellFailure) -> None:
    """Make a call again.

    Args:
        runner: Runs the node.
        call: What was recorded of the call.
        sink: Takes what a function with queues sends.
        alloc: Gives blocks.
        tell: Told if a function with queues fails.
    """
    function = runner.functions[call.function]
    spec, func = function.spec, function.func
    if not spec.stream_input:
        runner.call(function, call.inputs, lambda context: func.proc(context, call.inputs), call.head)
        return
    vain = _Vain()
    sources = [
        RecordedSource([msg for at, msg in zip(call.ports, call.inputs) if at == port], vain)
        for port in range(len(spec.inputs))
    ]
    stream = StreamRunner(spec, func, sources, sink, alloc, runner, node=call.node, number=call.function, tell=tell)
    try:
        stream.call()
    except NodeError:
        return  # it has told, and owes nothing
    stream.settle()
