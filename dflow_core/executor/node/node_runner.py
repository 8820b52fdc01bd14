"""What a node does with its messages, without queues, processes or threads.

Messages go in by port, outputs leave through a sink. Between them: pairing (`aligner.py`), gathering
(`gathering.py`), the call of the node's function, and the rule that every message that came in ends on every
output, with data, a skip or an error. The executor process and inline mode both drive this class.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from dflow_core.errors import DflowError, NodeError
from dflow_core.executor.exceptions import ExceptionDesk, no_catch
from dflow_core.executor.meter import CALLS, FAILED, Meter
from dflow_core.executor.node.call_context import CallContext, OutputSink
from dflow_core.executor.node.called_graph import CalledGraph, find_called
from dflow_core.executor.node.explanation import explain
from dflow_core.executor.node.forked import end_fork
from dflow_core.executor.node.node_extras import NodeExtras
from dflow_core.executor.node.node_function import NodeFunction, node_functions
from dflow_core.executor.node.shared_outputs import SharedOutputs
from dflow_core.executor.node.unwanted import Unwanted
from dflow_core.executor.pairing.aligner import MessageSet
from dflow_core.executor.pairing.gathering import Gathered
from dflow_core.message import Alloc, Aux, CurrentTransaction, DataFlag, ErrorInfo, FlowMsg
from dflow_core.model import ExceptionNote, PneModel
from dflow_core.recording import FailedCall
from dflow_core.spi import FlowFunc
from dflow_core.types import NO_LIMITS, AlignLimits

Clock = Callable[[], float]

_STOPPING = (DataFlag.ERROR, DataFlag.SKIP | DataFlag.END)
"""Flags that end a set of inputs without a call, the stronger first."""


class NodeRunner:
    """Runs the functions of one node instance.

    Args:
        model: The node's model.
        funcs: One FlowFunc for each function of the model, in order, initialised.
        instance: Number of this instance.
        sink: Takes (node output index, message in a block); may block.
        alloc: Gives blocks.
        clock: Monotonic seconds.
        dead: Parts lost with a former instance: trans_id, data_label, node ports that had arrived.
        on_call: Told of each finished call: transaction, start and end on the clock. The start of a call that overlaps
            the one before it is the end of that one.
        keep_exceptions: Whether to keep the last exception object; it pins the messages of its call.
        waiting: Whether more input is there, so that a function may leave a call open; whoever gives it must call
            `settle` when there is no more.
        meter: Takes the counters.
        called: The graphs its functions call, by key.
        on_failure: Told of each call that failed, before its error is sent.
        unwanted: Knows which messages belong to cancelled transactions.
        limits: When to give up a set that stays incomplete.
        desk: What the node knows of exceptions; None where functions may raise none.
    """

    def __init__(
        self,
        model: PneModel,
        funcs: Sequence[FlowFunc],
        *,
        instance: int,
        sink: OutputSink,
        alloc: Alloc,
        clock: Clock = time.monotonic,
        dead: Iterable[tuple[int, int, tuple[int, ...]]] = (),
        on_call: Callable[[int, float, float], None] | None = None,
        keep_exceptions: bool = False,
        waiting: Callable[[], bool] | None = None,
        meter: Meter | None = None,
        called: Mapping[str, CalledGraph] = MappingProxyType({}),
        on_failure: Callable[[FailedCall], None] | None = None,
        unwanted: Unwanted | None = None,
        limits: AlignLimits = NO_LIMITS,
        desk: ExceptionDesk | None = None,
    ) -> None:
        self.meter = meter or Meter()
        self.calls, self.busy, self.blocked, self.last_failed = 0, 0.0, 0.0, 0
        self.current: tuple[int, float] | None = None
        self.last_error: ErrorInfo | None = None
        self.last_exception: BaseException | None = None
        self.unwanted = unwanted or Unwanted()
        self._pid, self._is_reset = os.getpid(), False
        self._node, self._instance = model.name, instance
        self._send, self._alloc = sink, alloc
        self._clock, self._on_call = clock, on_call
        self._on_failure, self._keep_exceptions = on_failure, keep_exceptions
        self._waiting, self._called = waiting, called
        self.ends = SharedOutputs(model.functions).ends
        self._open: list[CallContext] = []
        self._counted = 0.0, 0.0
        self._functions = node_functions(model.functions, funcs, dead, limits, clock)
        self._extras = NodeExtras.of(self._functions, self, model.name, instance, limits, desk)
        self._by_port = {
            port: (found, local) for found in self._functions for local, port in enumerate(found.spec.inputs)
        }

    @property
    def pending(self) -> int:
        """Keys and transactions that wait for a part."""
        return sum(f.aligner.pending + (f.gatherer.pending if f.gatherer else 0) for f in self._functions)

    def failure(self) -> DflowError | None:
        """Why a function can run nothing any more, or None while all can."""
        return next((error for one in self._functions if (error := one.func.failure()) is not None), None)

    def direct_call(self) -> Callable[..., object] | None:
        """The node's function, if a message may go around this runner to it: see `FlowFunc.direct` and `conclude`."""
        is_watched = self._on_call is not None or self._keep_exceptions or self._extras is not None
        if len(self._functions) != 1 or is_watched or self._called:
            return None
        function, spec = self._functions[0], self._functions[0].spec
        holds = spec.holds_inputs or spec.stream_input or function.gatherer is not None
        return None if holds or not spec.inputs or not spec.outputs else function.func.direct()

    def may_pair_outside(self, trans_id: int) -> bool:
        """Of a node with `direct_call` and several inputs: see `Aligner.may_pair_outside`."""
        return self._functions[0].aligner.may_pair_outside(trans_id)

    def note_pair(self, key: tuple[int, int]) -> None:
        """A key (transaction, label) was paired outside."""
        self._functions[0].aligner.note_pair(key)

    def conclude(
        self, inputs: Sequence[FlowMsg], started: float, result: object, error: BaseException | None = None
    ) -> None:
        """End a call that was made around this runner with what `direct_call` gave.

        Args:
            inputs: What it was given.
            started: When, on the clock.
            result: What it returned.
            error: What it raised instead.
        """
        function = self._functions[0]
        if error is not None:
            # Not raised again: the frame it would be raised in refers to it, and so would hold its messages.
            self.complete(self._open_call(function, inputs, inputs[0], started), error)
        else:
            self.call(function, inputs, lambda context: function.func.deliver(context, result), inputs[0], started)

    @property
    def functions(self) -> Sequence[NodeFunction]:
        """Its functions, in order."""
        return self._functions

    def accept(self, port: int, msg: FlowMsg) -> None:
        """Take a message that arrived at a node input; runs the function if that completes a set."""
        if self.unwanted.words[0]:
            self.let_go()
            msg = self.unwanted.stand_in(msg)
        function, local = self._by_port[port]
        if function.gatherer is not None:
            gathered = function.gatherer.offer(msg)
            if gathered is not None:
                self._run_gathered(function, gathered)
            return
        for complete in function.aligner.offer(local, msg):
            self._run(function, complete)
        if function.limited is not None and self._extras is not None:
            self._extras.give_up(function)

    def let_go(self) -> None:
        """Free what waits here of transactions that were cancelled since the last call of this."""
        if not self.unwanted.has_news():
            return
        is_cancelled = self.unwanted.is_cancelled
        for function in self._functions:
            function.aligner.let_go(self.unwanted.stand_in)
            if function.gatherer is not None:
                function.gatherer.let_go(is_cancelled)
            if function.spec.holds_inputs:
                self.call(
                    function, (), lambda context, f=function: f.func.on_cancel(context, is_cancelled)  # type: ignore[misc]
                )

    def is_cancelled(self, trans_id: int) -> bool:
        """Whether nobody waits for a transaction any more."""
        return self.unwanted.is_cancelled(trans_id)

    def current_transaction(self) -> CurrentTransaction | None:
        """The transaction of the call under way; None between calls."""
        current = self.current
        return CurrentTransaction(current[0], self.unwanted.is_cancelled) if current is not None else None

    def deadline(self) -> float | None:
        """When `tick` should be called at the latest, or None."""
        times = [t for t in (function.func.deadline() for function in self._functions) if t is not None]
        if self._extras is not None and (limit := self._extras.deadline()) is not None:
            times.append(limit)
        return min(times, default=None)

    def tick(self) -> None:
        """Call the timer of every function whose deadline has passed, give up sets, and deliver exceptions."""
        if self._extras is not None:
            self._extras.tick()
        now = self._clock()
        for function in self._functions:
            deadline = function.func.deadline()
            if deadline is not None and deadline <= now:
                self.call(function, (), lambda context, f=function: f.func.on_timer(context))  # type: ignore[misc]

    def notify(self, note: ExceptionNote) -> None:
        """Tell the node of an exception; `tick` delivers it. Any thread."""
        if self._extras is not None:
            self._extras.notify(note)

    def raise_exception(self, context: CallContext, code: int, user_context_id: int) -> None:
        """A function raises an exception for the transaction of its current call."""
        if self._extras is None:
            raise no_catch(self._node)
        self._extras.raise_exception(context, code, user_context_id)

    def begin(self) -> None:
        """Count from where a former process of the instance, which may have stopped just now, has left off."""
        self.calls, self.busy, self.blocked = self.meter.begin()

    def settle(self) -> None:
        """Let functions end the calls they left open; to be called when no input waits, or memory is short."""
        if self._open:
            for function in self._functions:
                function.func.settle()

    def finish(self) -> None:
        """Let functions send what they still hold, because no more input will come."""
        self.settle()
        for function in self._functions:
            if function.spec.holds_inputs:
                self.call(function, (), lambda context, f=function: f.func.on_stop(context))  # type: ignore[misc]

    def reset(self) -> bool:
        """Forget everything that waits, and reset the functions, once until `go_on`; whether anything waited."""
        found = bool(self.pending)
        for function in self._functions:
            function.aligner.clear()
            if function.gatherer is not None:
                function.gatherer.clear()
        for func in () if self._is_reset else dict.fromkeys(function.func for function in self._functions):
            func.reset()
        self._is_reset = True
        return found

    def go_on(self) -> None:
        """Work again after `reset`."""
        self._is_reset = False

    def close(self) -> None:
        """Close the functions; several may be faces of one object."""
        for func in dict.fromkeys(function.func for function in self._functions):
            func.close()

    def _run(self, function: NodeFunction, inputs: MessageSet) -> None:
        first = inputs[0]
        for stops in _STOPPING:
            for msg in inputs:
                if msg.info.data_flag & stops:
                    return self.pass_on(function, msg)
        self.call(function, inputs, lambda context: function.func.proc(context, inputs), first)

    def _run_gathered(self, function: NodeFunction, gathered: Gathered) -> None:
        head = FlowMsg(gathered.info)
        if self.unwanted.words[0] and self.is_cancelled(gathered.info.trans_id):
            gathered.info.data_flag |= DataFlag.SKIP
            return self.pass_on(function, head)
        if gathered.error is not None:
            info = replace(gathered.info, data_flag=gathered.info.data_flag | DataFlag.ERROR | DataFlag.NULL)
            return self.pass_on(function, FlowMsg(info, None, Aux(error=gathered.error.error)))
        self.call(function, gathered.parts, lambda context: function.func.proc(context, gathered.parts), head)

    def pass_on(self, function: NodeFunction, msg: FlowMsg) -> None:
        """End a message on every output as it is: an error, a skip or the end of a stream."""
        self.settle()
        info = replace(msg.info, data_flag=msg.info.data_flag | DataFlag.NULL)
        for output in function.spec.outputs:
            if not info.data_flag & DataFlag.SKIP or self.ends(output, info.key):
                self._sink(output, FlowMsg(info, None, msg.aux))

    def may_defer(self) -> bool:
        """Whether the current call may stay open: another one is, or more input waits."""
        return len(self._open) > 1 or (self._waiting is not None and self._waiting())

    def called(self, key: str) -> CalledGraph:
        """A graph its functions call.

        Raises:
            UsageError: there is none of that key.
        """
        return find_called(self._called, key, self._node)

    def wanted(self, msg: FlowMsg) -> FlowMsg:
        """A message, or a skip in its place if its transaction was cancelled."""
        return self.unwanted.stand_in(msg) if self.unwanted.words[0] else msg

    def note_stream_call(self, error: ErrorInfo | None) -> None:
        """Count a call of a function with queues, which was made around this runner, and what failed."""
        self.calls += 1
        self.meter.ints[CALLS] = self.calls
        if error is not None:
            self.meter.ints[FAILED] += 1
            self.last_error = error

    def complete(self, context: CallContext, error: BaseException | None = None) -> None:
        """End an open call: send what it sent, or end its inputs with an error."""
        try:
            if error is None and context.raised is not None:
                context.fail_call(*context.raised)
            elif error is None:
                context.finish()
            else:
                self._fail(context, error)
        except BaseException as raised:
            if error is not None:
                raise
            self._fail(context, raised)
            if self._keep_exceptions and isinstance(raised, KeyboardInterrupt):
                raise
        finally:
            self._close_call(context)

    def explain(self, error: BaseException, context: CallContext, inputs: Sequence[FlowMsg]) -> ErrorInfo:
        """What to send about an error that a call raised over these inputs."""
        info = explain(error, inputs, self._node, self._instance)
        if self._on_failure is not None:
            number = next(i for i, function in enumerate(self._functions) if function.spec is context.spec)
            self._on_failure(FailedCall(self._node, self._instance, number, context.head, tuple(inputs), info))
        return info

    def call(
        self, function: NodeFunction, inputs: Sequence[FlowMsg], call: Callable[[CallContext], None],
        head: FlowMsg | None = None, started: float | None = None,
    ) -> None:
        context = self._open_call(function, inputs, head, started)
        try:
            call(context)
        except BaseException as error:  # whatever user code raises ends its transaction, and nothing else
            if context not in self._open:
                raise  # it failed to end another call, after it had ended its own
            self.complete(context, error)
            if self._keep_exceptions and isinstance(error, KeyboardInterrupt):
                raise  # inline it is the Ctrl-C of whoever runs the graph
        else:
            if not context.is_deferred:
                self.complete(context)

    def _open_call(
        self, function: NodeFunction, inputs: Sequence[FlowMsg], head: FlowMsg | None, started: float | None
    ) -> CallContext:
        context = CallContext(function.spec, head, self._sink, self._alloc, self, inputs, self._clock)
        if started is not None:
            context.started = started
        if not self._open:
            self._counted = context.started, self.blocked
            self.current = _trans_id(context), context.started
            self.meter.start(*self.current)
        self._open.append(context)
        return context

    def _fail(self, context: CallContext, error: BaseException) -> None:
        if self._keep_exceptions:
            self.last_exception = error
        elif os.getpid() != self._pid:
            end_fork(error)
        self.meter.ints[FAILED] += 1
        self.last_error = self.explain(error, context, context.inputs)
        self.last_failed = _trans_id(context)
        context.fail_call(self.last_error, error.ret_code if isinstance(error, NodeError) else 0)

    def _close_call(self, context: CallContext) -> None:
        """Keep account of a call that has ended; time in which several were open counts once."""
        self._open.remove(context)
        ended, (since, blocked) = self._clock(), self._counted
        self.busy += ended - since - (self.blocked - blocked)
        self._counted = ended, self.blocked
        self.calls += 1
        self.current = (_trans_id(self._open[0]), self._open[0].started) if self._open else None
        self.meter.end(self.calls, self.busy, self.blocked)
        if self.current is not None:
            self.meter.start(*self.current)
        if self._on_call is not None:
            self._on_call(_trans_id(context), max(context.started, since), ended)

    def _sink(self, output: int, msg: FlowMsg) -> None:
        """Send, and count the time it takes apart from the work: a full queue blocks here."""
        began = self._clock()
        self._send(output, msg)
        self.blocked += self._clock() - began


def _trans_id(context: CallContext) -> int:
    return context.head.info.trans_id if context.head is not None else 0
