"""A ModelWorker whose model runs in an executor process, over the core's local deployer and transport."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dflow_core.errors import ClosedError, DflowError, RunError
from dflow_core.message import decode
from dflow_core.model import FlowModel
from dflow_core.running_graph import RunningGraph
from dflow_core.session import DFlowSession
from dflow_core.spi import ModelWorker, OutputAlloc
from dflow_core.types import Array

_DEPTH = 2


class RemoteWorker(ModelWorker):
    """Runs a graph of one model in a process of its own, whose ModelWorker does the work.

    Args:
        session: Starts it.
        graph: The model alone.

    Raises:
        StartupError: the process does not come up.
    """

    def __init__(self, session: DFlowSession, graph: FlowModel) -> None:
        (model,) = graph.submodels.values()
        self.inputs, self.outputs = model.inputs, model.outputs
        self.depth = _DEPTH
        self._running: RunningGraph | None = session.run(graph)
        self._ended: dict[int, Sequence[Array] | DflowError] = {}

    def execute(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Sequence[Array]:
        """Run the model once."""
        return self.finish(self.begin(inputs, alloc))

    def begin(self, inputs: Sequence[Array], alloc: OutputAlloc) -> object:
        """Send the inputs, which are copied."""
        return self._graph().client.feed(dict(enumerate(inputs)))

    def finish(self, call: object) -> Sequence[Array]:
        """Wait for the outputs, which lie in shared memory and may not be written."""
        assert isinstance(call, int)
        while call not in self._ended:
            outcome = self._graph().client.fetch()
            self._ended[outcome.trans_id] = outcome.error or [
                _array(None if msg is None else decode(msg)) for msg in outcome.messages
            ]
        ended = self._ended.pop(call)
        if isinstance(ended, DflowError):
            raise ended
        return ended

    def failure(self) -> DflowError | None:
        """Why the process is gone for good, if it is."""
        deployment = None if self._running is None else self._running.deployment
        return None if deployment is None else deployment.failure()

    def close(self) -> None:
        """End the process."""
        running, self._running = self._running, None
        self._ended.clear()
        if running is not None:
            running.close()

    def _graph(self) -> RunningGraph:
        if self._running is None:
            raise ClosedError("the worker is closed")
        return self._running


def _array(value: object) -> Array:
    if not isinstance(value, np.ndarray):
        raise RunError(f"the executor sent a {type(value).__name__} instead of an array")
    return value
