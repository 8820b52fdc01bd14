"""One node instance in an executor: its queues around a NodeRunner."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence

from dflow_core.errors import ClosedError, NodeError, PoolExhaustedError
from dflow_core.executor.cancel_board import BOARD, CancelReader
from dflow_core.executor.cancel_board import WORDS as CANCEL_WORDS
from dflow_core.executor.exceptions import ExceptionDesk
from dflow_core.executor.failed_calls import FAILED_CALLS, call_sender
from dflow_core.executor.gate import Gate
from dflow_core.executor.lossy import NOTICE_SLICE, flush, reader, waitable
from dflow_core.executor.meter import WORDS, Meter, board_name
from dflow_core.executor.node.called_graph import CalledGraph
from dflow_core.executor.node.fast_lane import FastLane, LaneIo
from dflow_core.executor.node.forked import end_fork
from dflow_core.executor.node.join_lane import JoinLane
from dflow_core.executor.node.model_func import init_functions
from dflow_core.executor.node.node_runner import NodeRunner
from dflow_core.executor.node.unwanted import Unwanted
from dflow_core.executor.process.called_queues import CalledQueues
from dflow_core.executor.process.outlet import Outlet
from dflow_core.executor.process.routing import fixed, picked
from dflow_core.executor.streams.runner import StreamRunner
from dflow_core.executor.streams.threads import QueueSource, Streams, StreamThread
from dflow_core.executor.trace import CallTrace, trace_file
from dflow_core.message import Block, FlowMsg, alloc_tensor, routing_of, set_current_transaction
from dflow_core.model import DeadPart, ExceptionNote, InstancePlan, InvokedPlan, PneModel, UdfModel
from dflow_core.spi import (
    Doorbell,
    FlowFunc,
    FuncParams,
    MemoryGroup,
    NodeLinks,
    NodeWorker,
    Queue,
    WorkerContext,
    WorkerLoader,
    set_running,
)
from dflow_core.types import AlignLimits, FuncSpec

_SLICE = 0.2
_PATIENCE = 60.0
"""Seconds of a wait for messages; it ends at once when the queue is closed, as it is when the graph stops."""
_ALLOC_LIMIT = 30.0


class InstanceRunner:
    """Takes messages from a node's queues, runs them, and puts what comes out into the next queues.

    Args:
        model: The node's model.
        plan: Its queues, device and threads.
        group: The memory group.
        loader: The engine's worker loader.
        options: Graph options in force.
        udf_factory: Gives registered built-in UDFs.
        dead_parts: Parts lost with the former process of this instance.
        report: Takes a sentence for the log.
        stays_here: As in WorkerContext.
        raised: Takes an exception that a function of this instance raised.
    """

    def __init__(
        self, model: PneModel, plan: InstancePlan, group: MemoryGroup, loader: WorkerLoader,
        options: Mapping[str, str], udf_factory: Callable[[str], FlowFunc] | None,
        dead_parts: Sequence[DeadPart], report: Callable[[str], None], stays_here: tuple[bool, ...] = (),
        raised: Callable[[ExceptionNote], None] = lambda _note: None,
    ) -> None:
        self._model = model
        self._plan = plan
        self._group = group
        self._loader = loader
        self._options = options
        self._udf_factory = udf_factory
        self._dead_parts = dead_parts
        self._report = report
        self._stays_here = stays_here
        self._raised = raised
        self._pid = os.getpid()
        self.gate = Gate(lambda: self.current is not None)
        self._lane: FastLane | None = None
        self._doorbell: Doorbell | None = None
        self._runner: NodeRunner | None = None
        self._worker: NodeWorker | None = None
        self._params: FuncParams | None = None
        self._trace: CallTrace | None = None
        self._called: dict[str, CalledGraph] = {}
        self._streams = Streams()
        self._inputs: list[Queue] = []
        self._on_failure = call_sender(group) if options.get("record") else None

    @property
    def calls(self) -> int:
        """Calls finished."""
        doer = self._worker or self._runner
        return doer.calls if doer else 0

    @property
    def busy(self) -> float:
        """Seconds spent in calls."""
        doer = self._worker or self._runner
        return doer.busy if doer else 0.0

    @property
    def current(self) -> tuple[int, float] | None:
        """Transaction in work and since when (monotonic seconds), or None."""
        doer = self._worker or self._runner
        return doer.current if doer else None

    def load(self, warm: bool = False) -> None:
        """Load the model and initialise its functions, and run it once if asked; may take long and raise anything."""
        plan, model = self._plan, self._model
        context = WorkerContext(
            node=model.name, instance=plan.index, instance_count=plan.count, device=plan.device,
            threads=plan.threads, options=self._options,
            alloc=lambda shape, dtype: alloc_tensor(shape, dtype, self._alloc),
            udf_factory=self._udf_factory, report=self._report, stays_here=self._stays_here,
            own_thread=True,
        )
        self._params = params = FuncParams(
            model.name, plan.index, plan.count, plan.device, plan.threads, len(plan.inputs), len(plan.outputs),
            model.params if isinstance(model, UdfModel) else {}, tuple(one.key for one in plan.invoked),
            model.balance,
        )
        worker = self._loader(model, context)
        if isinstance(worker, NodeWorker):
            self._worker = worker
            folder = self._options.get("trace", "")
            trace = trace_file(folder, model.name, plan.index) if folder else ""
            limits = AlignLimits.of(self._options, model.options)
            links = NodeLinks(
                self._group, plan, params, self._dead_parts, trace, limits, self._catches, self._raised,
                self._group.board(BOARD, CANCEL_WORDS), FAILED_CALLS if self._on_failure else "",
            )
            worker.open(links)
            return
        self._outlet = Outlet(plan, self._group, self.gate, self._alloc)
        funcs = init_functions(model, worker, params, warm)
        dead = [(part.trans_id, part.data_label, part.ports) for part in self._dead_parts]
        if self._options.get("trace"):
            self._trace = CallTrace(self._options["trace"], model.name, plan.index)
        self._called = {one.key: self._called_graph(one) for one in plan.invoked}
        self._runner = NodeRunner(
            model, funcs, instance=plan.index, sink=self._outlet.send, alloc=self._alloc, dead=dead,
            on_call=self._trace.call if self._trace else None, waiting=self._is_input_waiting,
            meter=Meter(self._group.board(board_name(model.name, plan.index), WORDS)), called=self._called,
            on_failure=self._on_failure,
            unwanted=Unwanted(
                CancelReader(self._group.board(BOARD, CANCEL_WORDS)), lambda size: self._group.alloc(size, 0.0)
            ),
            limits=AlignLimits.of(self._options, model.options),
            desk=ExceptionDesk(model.name, plan.index, self._raised) if self._catches else None,
        )
        self._inputs = [reader(self._group, name, plan.notices) for name in plan.inputs]
        streams = zip(model.functions, funcs, strict=True)
        self._streams = Streams([self._stream(spec, func) for spec, func in streams if spec.stream_input], self.gate)

    def run(self) -> None:
        """Work until the input queues are closed and empty, or `stop`.

        Raises:
            NodeError: after a failing call, if the node's `on_error` is `stop`.
        """
        if self._worker is not None:
            self.gate.lead(self._worker.hold)
            return self._worker.run()
        assert self._runner is not None, "load() first"
        set_current_transaction(self._runner.current_transaction)
        set_running(self._params)
        self._runner.begin()
        self._lane = lane = self._fast_lane()
        try:
            if lane is not None:
                lane.run(_PATIENCE)
            else:
                self._streams.start()
                self._run_rounds()
                self._streams.join(self._check_failure)
            if not self.gate.stopping:
                self._runner.finish()
                self._check_failure()
        except ClosedError:
            if os.getpid() != self._pid:
                end_fork(None)
            if not self.gate.stopping:
                self._report("an output queue was closed; leaving")

    def _fast_lane(self) -> FastLane | None:
        """The short way, if this node is one for it: it has one function, which takes and gives values."""
        assert self._runner is not None
        call = self._runner.direct_call()
        spec = self._model.functions[0]
        # What is dropped needs more than a lane does.
        if call is None or len(spec.inputs) != len(self._inputs) or self._plan.notices:
            return None
        found = [self._outlet.targets[output] for output in spec.outputs]
        queues = [known for targets in found if (known := fixed(targets)) is not None]
        is_fixed = len(queues) == len(found)
        io = LaneIo(
            self._group, [self._inputs[port] for port in spec.inputs], queues if is_fixed else (), self._outlet.put,
            lambda port, block: self._accept(spec.inputs[port], block), self._check_failure, self.gate,
            None if is_fixed else lambda block: [picked(targets, *routing_of(block)) for targets in found],
        )
        if len(spec.inputs) == 1:
            return FastLane(self._runner, call, io)
        self._doorbell = self._group.doorbell()
        return JoinLane(self._runner, call, io, self._doorbell)

    def _run_rounds(self) -> None:
        assert self._runner is not None
        doorbell = self._doorbell = self._group.doorbell()
        theirs = {port for spec in self._model.functions if spec.stream_input for port in spec.inputs}
        open_ports = {port: queue for port, queue in enumerate(self._inputs) if port not in theirs}
        while open_ports and not self.gate.stopping:
            if not self._take_round(open_ports):
                self._look_around()
                limit = NOTICE_SLICE if flush(self._outlet.queues.values()) else _PATIENCE
                doorbell.wait(waitable(open_ports.values()), timeout=self._wait_limit(limit))

    def _look_around(self) -> None:
        """What is to be done when no message waits."""
        assert self._runner is not None
        self._runner.settle()
        if self.gate.enter():
            if self._runner.unwanted.words[0]:
                self._runner.let_go()
            self._runner.tick()
            self._check_failure()
        self.gate.busy = False

    def stop(self) -> None:
        """Make `run` return soon without draining; any thread may call.

        A node with one input waits in its queue, and returns as soon as that is closed.
        """
        self.gate.stop()
        if self._doorbell is not None:
            self._doorbell.ring()
        self._streams.wake()
        for graph in self._called.values():
            graph.wake()
        if self._worker is not None:
            self._worker.stop()

    def look(self) -> None:
        """Something was cancelled: end calls of graphs for it, and make a loop that waits go round; any thread."""
        runner, current = self._runner, self.current
        if runner is not None and current is not None and runner.is_cancelled(current[0]):
            for called in self._called.values():
                called.cancel(current[0])
        if self._doorbell is not None:
            self._doorbell.ring()

    def notify(self, note: ExceptionNote) -> None:
        """Tell the node of an exception; any thread."""
        if self._worker is not None:
            self._worker.notify(note)
        elif self._runner is not None:
            self._runner.notify(note)
            if self._doorbell is not None:
                self._doorbell.ring()

    @property
    def _catches(self) -> bool:
        return self._options.get("exception_catch") == "1"

    @property
    def is_quiet(self) -> bool:
        """Whether no call is under way, and none begins while suspended."""
        if self._worker is not None:
            return self._worker.is_quiet
        return self.gate.is_quiet and self._streams.is_quiet

    def discard(self) -> bool:
        """While suspended, throw away all there is and reset the functions; whether there was none."""
        if self._worker is not None:
            return self._worker.reset()
        assert self._runner is not None
        return self.gate.discard(self._clear, self._runner.go_on)

    def _clear(self) -> bool:
        """Whether there was anything to throw away."""
        assert self._runner is not None
        found = self._lane is not None and self._lane.clear()
        for queue in self._inputs:
            with contextlib.suppress(ClosedError):
                while (block := queue.get(0.0)) is not None:
                    found = True
                    block.release()
        found = self._streams.clear() or found
        return self._runner.reset() or found

    def close(self) -> None:
        """Close the functions."""
        if self._trace is not None:
            self._trace.close()
        if self._worker is not None:
            self._worker.close()
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        for graph in self._called.values():
            graph.close()

    def _stream(self, spec: FuncSpec, func: FlowFunc) -> StreamThread:
        """A function with queues, in a thread of its own."""
        assert self._runner is not None
        doorbell, send = self._group.doorbell(), self._on_failure
        sources = [QueueSource(self._inputs[port], doorbell, self.gate) for port in spec.inputs]
        runner = StreamRunner(
            spec, func, sources, self._outlet.send, self._alloc, self._runner, node=self._model.name,
            instance=self._plan.index, stops=self._model.options.on_error == "stop",
            number=self._model.functions.index(spec), tell=None if send is None else lambda call, _error: send(call),
        )
        name = f"{self._model.name}#{self._plan.index}.{spec.name}"
        return StreamThread(name, runner, sources, doorbell, self.gate, self._wake)

    def _wake(self) -> None:
        if self._doorbell is not None:
            self._doorbell.ring()

    def _called_graph(self, one: InvokedPlan) -> CalledGraph:
        queues = CalledQueues(one, self._plan.notices, self._group, self.gate.is_stopping)
        inputs = [f"input {i}" for i in range(len(one.inputs))]
        return CalledGraph(f"{self._model.name}/{one.key}", inputs, one.outputs, queues)

    def _take_round(self, open_ports: dict[int, Queue]) -> bool:
        """Take at most one message from each port; whether there was any."""
        assert self._runner is not None
        took = False
        for port, queue in list(open_ports.items()):
            if self.gate.stopping:
                return took
            try:
                block = queue.get(timeout=0)
            except ClosedError:
                del open_ports[port]
                took = True  # look again at once: there may be no port left to wait for
                continue
            if block is not None:
                took = True
                self._accept(port, block)
        deadline = self._runner.deadline() if took else None
        if deadline is not None and deadline <= time.monotonic():
            if self.gate.enter():
                self._runner.tick()
            self.gate.busy = False
        return took

    def _accept(self, port: int, block: Block) -> None:
        assert self._runner is not None
        if self.gate.raised:
            self._runner.settle()
        if self.gate.enter():
            self._runner.accept(port, FlowMsg.from_block(block))
            self._check_failure()
        self.gate.busy = False

    def _check_failure(self) -> None:
        assert self._runner is not None
        self._streams.check()
        error = self._runner.last_error
        if error is None:
            return
        lost = self._runner.failure()
        if lost is not None:
            raise lost  # the process ends, and is started anew by the node's policy
        if self._model.options.on_error == "stop":
            raise NodeError(
                error.message, node=self._model.name, instance=self._plan.index, trans_id=self._runner.last_failed,
                error_type=error.error_type, remote_traceback=error.traceback, input_shapes=error.input_shapes,
            )

    def _is_input_waiting(self) -> bool:
        return all(queue.level() > 0 for queue in self._inputs)

    def _wait_limit(self, limit: float) -> float:
        assert self._runner is not None
        deadline = self._runner.deadline()
        if deadline is None:
            return limit
        return min(limit, max(0.0, deadline - time.monotonic()))

    def _alloc(self, size: int) -> Block:
        limit = time.monotonic() + _ALLOC_LIMIT
        while True:
            try:
                return self._group.alloc(size, timeout=_SLICE)
            except PoolExhaustedError as error:
                if error.never_fits or self.gate.stopping or time.monotonic() > limit:
                    raise
                if self._runner is not None:
                    self._runner.settle()
