"""Inline mode: the whole graph in the caller's thread, with the same joins, batching and errors.

Breakpoints, print and coverage work as in plain code, because a node runs inside the caller's `feed`, `fetch` or call.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from dflow_core.errors import DflowError, UsageError
from dflow_core.executor.backend import ALLOC_LIMIT, Backend
from dflow_core.executor.cancel_board import CancelReader, Words, no_words
from dflow_core.executor.failed_calls import packed
from dflow_core.executor.inline.edges import InlineEdge, inline_edges
from dflow_core.executor.inline.exceptions import InlineExceptions
from dflow_core.executor.inline.repeating import repeat
from dflow_core.executor.meter import FAILED, NodeStats
from dflow_core.executor.node.called_graph import CalledGraph
from dflow_core.executor.node.model_func import load_functions
from dflow_core.executor.node.node_runner import NodeRunner
from dflow_core.executor.node.unwanted import Unwanted
from dflow_core.executor.streams.inline import InlineStream
from dflow_core.executor.streams.runner import StreamRunner
from dflow_core.executor.trace import CallTrace
from dflow_core.message import Block, FlowMsg, HeapBlock, reset_current_transaction, set_current_transaction
from dflow_core.model import ExceptionNote, FlowModel, PneModel, UdfModel, called_options, called_part, own_part
from dflow_core.options import Options
from dflow_core.recording import FailedCall
from dflow_core.spi import Exchange, FlowFunc, FuncParams, QueueStats, WorkerContext, WorkerLoader
from dflow_core.types import AlignLimits


class InlineBackend(Backend):
    """Runs every node of a model in the calling thread, one instance each.

    Args:
        model: The compiled graph.
        loaders: Worker loader by engine id.
        udf_factory: Gives registered built-in UDFs.
        threads: Threads a model may use.
        clock: Monotonic seconds.
        records: Whether to keep what failed calls were given, for `failed_calls`.
        wrap: Gives what runs instead of a function of a node.
        only: Name of a node: nothing else is loaded, and `repeat` is all that can be done.
        cancelled: The board of cancelled transactions, for a graph that is called by another.
        options: Graph options in force, as texts; those of the model if not given.
    """

    def __init__(
        self, model: FlowModel, loaders: Mapping[str, WorkerLoader],
        udf_factory: Callable[[str], FlowFunc] | None = None, threads: int = 1,
        clock: Callable[[], float] = time.monotonic, records: bool = False,
        wrap: Callable[[str, FlowFunc], FlowFunc] | None = None, only: str = "",
        cancelled: Words | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        options = model.options if options is None else options
        whole, model = model, own_part(model)
        self._relation = model.relation
        self._clock = clock
        self._inner: dict[str, InlineBackend] = {}
        self._depth = int(options.get("queue_depth", Options().queue_depth))
        self._edges = inline_edges(model, self._depth, clock)
        self._exceptions = InlineExceptions(options.get("exception_catch") == "1")
        # What is to be done next: an edge to take from, or a notice for the reader of one.
        self._work: deque[tuple[InlineEdge, FlowMsg | None]] = deque()
        self._arrived: list[tuple[InlineEdge, FlowMsg | None]] = []
        self._cancelled = no_words() if cancelled is None else cancelled
        self._runners: dict[str, NodeRunner] = {}
        self._failed_calls: list[bytes] = []
        self._sent: list[tuple[int, FlowMsg]] = []
        self._is_held_up = self._was_discarded = False
        # Threads of the caller take turns in running nodes; a node may call its own graph.
        self._turn = threading.Condition(threading.RLock())
        self._streams: dict[tuple[str, int], tuple[InlineStream, int]] = {}
        self._makers: dict[str, Callable[[PneModel], NodeRunner]] = {}
        self._traces: dict[str, CallTrace] = {}
        on_failure = self._note_failure if records else None

        self._loaders, self._udf_factory, self._threads, self._options = loaders, udf_factory, threads, options
        self._wrap, self._only, self._on_failure = wrap, only, on_failure
        try:
            for name, part in model.submodels.items():
                inside, other = "" if name == only else only, called_options(options)
                rest = udf_factory, threads, clock, records, wrap, inside, self._cancelled, other
                called = {
                    one.key: self._load_called(one.name, InlineBackend(called_part(whole, one), loaders, *rest))
                    for one in self._relation.invoked_by(name)
                }
                if only in ("", name):
                    self._makers[name] = functools.partial(self._make, called)
                    self._make(called, part)
        except BaseException:
            self.close()
            raise

    def _make(self, called: Mapping[str, CalledGraph], part: PneModel) -> NodeRunner:
        """Load a node, and run it unless one of that name runs already."""
        name, wrap = part.name, self._wrap
        context = WorkerContext(
            name, 0, 1, "cpu:0", self._threads, self._options, udf_factory=self._udf_factory, alloc=np.empty
        )
        funcs = self._load(part, self._loaders[part.engine], context, tuple(called))
        runner = NodeRunner(
            part, [wrap(name, func) for func in funcs] if wrap is not None else funcs, instance=0,
            sink=self._keep if self._only else self._sink(self._relation.submodels[name].outputs),
            alloc=self.alloc, clock=self._clock, keep_exceptions=True, called=called, on_failure=self._on_failure,
            unwanted=Unwanted(CancelReader(self._cancelled)), limits=AlignLimits.of(self._options, part.options),
            desk=self._exceptions.desk(name), on_call=self._trace_of(name),
        )
        if name not in self._runners:
            self._runners[name] = runner
            if not self._only:
                self._start_streams(part, funcs)
        return runner

    def _trace_of(self, node: str) -> Callable[[int, float, float], None] | None:
        """What takes the calls of a node down, also after it was exchanged; None without the option."""
        folder = self._options.get("trace", "")
        if not folder or self._only:
            return None
        if node not in self._traces:
            self._traces[node] = CallTrace(folder, node, 0)
        return self._traces[node].call

    def _load_called(self, name: str, inner: InlineBackend) -> CalledGraph:
        self._inner[name], roots = inner, inner._relation
        return CalledGraph(name, roots.input_names, roots.output_names, inner, inner.last_exception)

    def _load(
        self, part: PneModel, loader: WorkerLoader, context: WorkerContext, keys: tuple[str, ...]
    ) -> list[FlowFunc]:
        sides, attrs = self._relation.submodels[part.name], part.params if isinstance(part, UdfModel) else {}
        params = FuncParams(
            part.name, 0, 1, context.device, context.threads, len(sides.inputs), len(sides.outputs), attrs, keys,
            part.balance,
        )
        return load_functions(part, loader, context, params)

    @property
    def _all_streams(self) -> Sequence[InlineStream]:
        return list(dict.fromkeys(stream for stream, _ in self._streams.values()))

    def _start_streams(self, part: PneModel, funcs: Sequence[FlowFunc]) -> None:
        """Let the functions with queues of a node run up to where they wait for a message."""
        runner, sink = self._runners[part.name], self._sink(self._relation.submodels[part.name].outputs)
        for number, (spec, func) in enumerate(zip(part.functions, funcs)):
            if spec.stream_input:
                stream = InlineStream(f"{part.name}.{spec.name}", len(spec.inputs), self._depth, self._clock)
                self._streams |= {(part.name, port): (stream, i) for i, port in enumerate(spec.inputs)}
                stream.start(StreamRunner(
                    spec, func, stream.sources, sink, self.alloc, runner, node=part.name, number=number,
                    tell=lambda failed, error: self._note_stream(runner, failed, error),
                ))

    def alloc(self, size: int, timeout: float = ALLOC_LIMIT) -> Block:
        return HeapBlock(size)

    def owns(self, block: Block) -> bool:
        return isinstance(block, HeapBlock)

    def has_room(self, inputs: Sequence[int]) -> bool:
        return True

    def feed(self, trans_id: int, blocks: Mapping[int, Block]) -> None:
        with self._turn:
            for port, block in blocks.items():
                self._publish(self._relation.root.inputs[port], FlowMsg.from_block(block))
            try:
                self._run()
            finally:
                self._turn.notify_all()

    def pump(self, timeout: float, room_for: Sequence[int] = ()) -> list[tuple[int, FlowMsg]]:
        if not self._turn.acquire(timeout=timeout):
            return []
        try:
            self._run()
            if not self._arrived:
                self._rest(timeout)
            arrived, self._arrived = self._arrived, []
            return [(edge.target[1], msg) for edge, notice in arrived for msg in ([notice] if notice else edge.take())]
        finally:
            self._turn.release()

    def _rest(self, timeout: float) -> None:
        """Wait until another thread has fed, or the time of a node has come."""
        timed: list[NodeRunner | InlineStream] = [] if self._is_held_up else [
            *self._runners.values(), *self._all_streams
        ]
        deadlines = [d for d in (one.deadline() for one in timed) if d is not None]
        until = min([self._clock() + timeout, *deadlines])
        self._turn.wait(max(0.0, until - self._clock()))
        for one in timed:
            one.tick()
        self._run()

    def failed_calls(self) -> list[bytes]:
        found, self._failed_calls = self._failed_calls, []
        return [*(call for inner in self._inner.values() for call in inner.failed_calls()), *found]

    def repeat(self, call: FailedCall) -> list[tuple[int, FlowMsg]]:
        """Make one call again, with the messages it had, in a backend made with `only`; gives what it sends."""
        runner = self._runners.get(call.node)
        if runner is None:
            return [found for inner in self._inner.values() for found in inner.repeat(call)]
        repeat(runner, call, self._keep, self.alloc, lambda failed, error: self._note_stream(runner, failed, error))
        runner.finish()
        return self._sent

    def take_exceptions(self) -> list[ExceptionNote]:
        return self._exceptions.take()

    def failure(self) -> DflowError | None:
        return None

    def report(self, stacks: bool = True) -> str:
        return "\n".join(
            f"  {name}: {runner.calls} calls, {runner.pending} waiting for a part"
            for name, runner in self._runners.items()
        )

    def last_exception(self, node: str) -> BaseException | None:
        """The last exception the user's code raised in a node."""
        runner = self._runners.get(node)
        if runner is not None:
            return runner.last_exception
        return next((found for inner in self._inner.values() if (found := inner.last_exception(node))), None)

    def edges(self) -> tuple[QueueStats, ...]:
        """Counters of every queue."""
        called = [found for inner in self._inner.values() for found in inner.edges()]
        return (*(edge.stats() for edges in self._edges.values() for edge in edges), *called)

    def stats(self) -> tuple[tuple[NodeStats, ...], tuple[QueueStats, ...], int]:
        nodes = (
            NodeStats(name, 0, os.getpid(), calls=runner.calls, failed=runner.meter.ints[FAILED], busy=runner.busy)
            for name, runner in self._runners.items()
        )
        called = [found for inner in self._inner.values() for found in inner.stats()[0]]
        return (*nodes, *called), self.edges(), 0

    def cancel_words(self) -> Words:
        return self._cancelled

    def whereabouts(self, trans_id: int) -> tuple[str, int] | None:
        busy = (name for name, runner in self._runners.items() if runner.current and runner.current[0] == trans_id)
        name = next(busy, None)
        return (name, 0) if name is not None else None

    def prepare(self, models: Mapping[str, PneModel]) -> Exchange:
        if any(func.stream_input for part in models.values() for func in part.functions):
            raise UsageError("a function that takes a stream cannot be exchanged in the caller's thread")
        made: list[_Exchanged] = []
        try:
            for name, part in models.items():
                owner = self._owner_of(name)
                assert owner is not None, name
                made.append((owner._runners, name, owner._makers[name](part)))
        except BaseException:
            _InlineExchange(made).abandon()
            raise
        return _InlineExchange(made)

    def _owner_of(self, node: str) -> InlineBackend | None:
        """Who runs a node: this, or a graph that is called by one of its nodes."""
        if node in self._makers:
            return self
        return next((found for inner in self._inner.values() if (found := inner._owner_of(node))), None)

    def suspend(self, timeout: float) -> bool:
        self._is_held_up = True
        return True

    def resume(self) -> None:
        self._is_held_up = False
        if self._was_discarded:
            self._was_discarded = False
            for runner in self._runners.values():
                runner.go_on()
            for inner in self._inner.values():
                inner.resume()

    def discard(self, timeout: float) -> bool | None:
        with self._turn:
            return self._discarded(timeout)

    def _discarded(self, timeout: float) -> bool:
        self._was_discarded = True
        found = [not stream.discard() for stream in self._all_streams]
        self._work.clear()
        self._arrived.clear()
        found += [edge.clear() for edges in self._edges.values() for edge in edges]
        found += [runner.reset() for runner in self._runners.values()]
        return not any([*found, *(not inner.discard(timeout) for inner in self._inner.values())])

    def wake(self) -> None:
        """Nothing to wake: only the caller's own thread ever waits."""

    def close(self) -> None:
        for stream in self._all_streams:
            stream.close()
        for runner in self._runners.values():
            runner.close()
        self._runners.clear()
        for trace in self._traces.values():
            trace.close()
        for inner in self._inner.values():
            inner.close()

    def _note_failure(self, call: FailedCall) -> None:
        self._failed_calls.append(packed(call))

    def _note_stream(self, runner: NodeRunner, call: FailedCall, error: BaseException) -> None:
        runner.last_exception = error
        if self._on_failure is not None:
            self._on_failure(call)

    def _keep(self, output: int, msg: FlowMsg) -> None:
        self._sent.append((output, msg))

    def _sink(self, endpoints: Sequence[str]) -> Callable[[int, FlowMsg], None]:
        return lambda output, msg: self._publish(endpoints[output], msg)

    def _publish(self, endpoint: str, msg: FlowMsg) -> None:
        for edge in self._edges[endpoint]:
            news = self._work if edge.target[0] else self._arrived
            news.extend((edge, notice) for notice in edge.put(msg))
            news.append((edge, None))

    def _run(self) -> None:
        if self._is_held_up:
            return
        if self._cancelled[0]:
            for runner in self._runners.values():
                runner.let_go()
        while self._work or self._exceptions.has_news:
            if self._exceptions.has_news:
                self._exceptions.spread(list(self._runners.values()))
                continue
            edge, notice = self._work.popleft()
            name, port = edge.target
            for msg in [notice] if notice else edge.take():
                if (name, port) in self._streams:
                    stream, local = self._streams[name, port]
                    stream.offer(local, msg)
                else:
                    self._accept(self._runners[name], port, msg)

    def _accept(self, runner: NodeRunner, port: int, msg: FlowMsg) -> None:
        """Run a node in this thread, which may be in a call of another graph."""
        token = set_current_transaction(runner.current_transaction)
        try:
            runner.accept(port, msg)
        finally:
            reset_current_transaction(token)


_Exchanged: TypeAlias = tuple[dict[str, NodeRunner], str, NodeRunner]
"""Runners in force, and another one for one of them."""


class _InlineExchange(Exchange):
    """Other runners for some nodes."""

    def __init__(self, made: Sequence[_Exchanged]) -> None:
        self._made, self._old = made, [current[name] for current, name, _ in made]

    def commit(self, timeout: float) -> None:
        for current, name, runner in self._made:
            current[name] = runner
        self._made = ()

    def finish(self) -> None:
        with contextlib.ExitStack() as stack:  # all of them, also when one raises
            for runner in self._old:
                stack.callback(runner.close)

    def abandon(self) -> None:
        for _, _, runner in self._made:
            runner.close()
