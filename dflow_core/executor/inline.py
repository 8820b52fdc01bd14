"""Inline mode: the whole graph in the caller's thread, with the same joins, batching and errors.

Breakpoints, print and coverage work as in plain code, because a node runs inside the caller's `feed`, `fetch` or call.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dflow_core.errors import DflowError
from dflow_core.executor.backend import ALLOC_LIMIT, Backend
from dflow_core.executor.model_func import load_functions
from dflow_core.executor.node_runner import NodeRunner
from dflow_core.message import Block, FlowMsg, HeapBlock
from dflow_core.model import FlowModel, UdfModel
from dflow_core.spi import FlowFunc, FuncParams, WorkerContext, WorkerLoader


class InlineBackend(Backend):
    """Runs every node of a model in the calling thread, one instance each.

    Args:
        model: The compiled graph.
        loaders: Worker loader by engine id.
        udf_factory: Gives registered built-in UDFs.
        threads: Threads a model may use.
        clock: Monotonic seconds.
    """

    def __init__(
        self, model: FlowModel, loaders: Mapping[str, WorkerLoader],
        udf_factory: Callable[[str], FlowFunc] | None = None, threads: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._relation = model.relation
        self._clock = clock
        self._work: deque[tuple[str, int, FlowMsg]] = deque()
        self._arrived: list[tuple[int, FlowMsg]] = []
        self._runners: dict[str, NodeRunner] = {}
        try:
            for name, part in model.submodels.items():
                context = WorkerContext(
                    name, 0, 1, "cpu:0", threads, model.options, udf_factory=udf_factory, alloc=np.empty
                )
                attrs = part.params if isinstance(part, UdfModel) else {}
                sides = self._relation.submodels[name]
                params = FuncParams(name, 0, 1, "cpu:0", threads, len(sides.inputs), len(sides.outputs), attrs)
                funcs = load_functions(part, loaders[part.engine], context, params)
                self._runners[name] = NodeRunner(
                    part, funcs, instance=0, sink=self._sink(sides.outputs), alloc=self.alloc, clock=clock,
                    keep_exceptions=True,
                )
        except BaseException:
            self.close()
            raise

    def alloc(self, size: int, timeout: float = ALLOC_LIMIT) -> Block:
        return HeapBlock(size)

    def owns(self, block: Block) -> bool:
        return isinstance(block, HeapBlock)

    def has_room(self, inputs: Sequence[int]) -> bool:
        return True

    def feed(self, trans_id: int, blocks: Mapping[int, Block]) -> None:
        for port, block in blocks.items():
            self._publish(self._relation.root.inputs[port], FlowMsg.from_block(block))
        self._run()

    def pump(self, timeout: float, room_for: Sequence[int] = ()) -> list[tuple[int, FlowMsg]]:
        self._run()
        if not self._arrived:
            deadlines = [d for d in (runner.deadline() for runner in self._runners.values()) if d is not None]
            until = min([self._clock() + timeout, *deadlines])
            time.sleep(max(0.0, until - self._clock()))
            for runner in self._runners.values():
                runner.tick()
            self._run()
        arrived, self._arrived = self._arrived, []
        return arrived

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
        return runner.last_exception if runner else None

    def wake(self) -> None:
        """Nothing to wake: only the caller's own thread ever waits."""

    def close(self) -> None:
        for runner in self._runners.values():
            runner.close()
        self._runners.clear()

    def _sink(self, endpoints: Sequence[str]) -> Callable[[int, FlowMsg], None]:
        return lambda output, msg: self._publish(endpoints[output], msg)

    def _publish(self, endpoint: str, msg: FlowMsg) -> None:
        for name, port in self._relation.consumers(endpoint):
            self._work.append((name, port, msg))
        for output, wanted in enumerate(self._relation.root.outputs):
            if wanted == endpoint:
                self._arrived.append((output, msg))

    def _run(self) -> None:
        while self._work:
            name, port, msg = self._work.popleft()
            self._runners[name].accept(port, msg)
