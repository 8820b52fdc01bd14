"""A model as a FlowFunc: arrays out of messages, checks, the run, arrays into messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dflow_core.errors import CompileError, TensorError
from dflow_core.message import FlowMsg, describe
from dflow_core.model import PneModel
from dflow_core.spi import FlowFunc, FuncParams, ModelWorker, RunContext, WorkerContext, WorkerLoader
from dflow_core.types import Array, data_type_of


class ModelFunc(FlowFunc):
    """Runs a ModelWorker on the tensors of messages.

    A null message (an end of sequence, say) is not run: it passes on as null (runtime-semantics.md section 17).
    """

    def __init__(self, worker: ModelWorker) -> None:
        self._worker = worker

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        if any(msg.is_null for msg in inputs):
            for index in range(len(self._worker.outputs)):
                context.send(index, None)
            return
        arrays = [self._array(port, msg) for port, msg in enumerate(inputs)]
        results = self._worker.execute(arrays, context.alloc)
        if len(results) != len(self._worker.outputs):
            raise CompileError(f"the model gave {len(results)} outputs, expected {len(self._worker.outputs)}")
        for index, result in enumerate(results):
            context.send(index, np.asarray(result))

    def close(self) -> None:
        self._worker.close()

    def _array(self, port: int, msg: FlowMsg) -> Array:
        spec = self._worker.inputs[port]
        label = f"input {port}" + (f" ({spec.name})" if spec.name else "")
        array = msg.get_tensor()
        if array is None:
            raise TensorError(
                f"{label} needs a tensor {spec}, got {describe(msg)}",
                hint="feed a numpy array, and let the node in front return one",
            )
        problem = spec.mismatch(data_type_of(array.dtype), array.shape)
        if problem is not None:
            raise TensorError(f"{label}: {problem}")
        return array


def load_functions(
    model: PneModel, loader: WorkerLoader, context: WorkerContext, params: FuncParams
) -> list[FlowFunc]:
    """Load a model and initialise its functions, each object once.

    Raises:
        Whatever user code or the engine raises.
    """
    worker = loader(model, context)
    funcs: list[FlowFunc] = [ModelFunc(worker)] if isinstance(worker, ModelWorker) else list(worker)
    if len(funcs) != len(model.functions):
        raise CompileError(f"engine {model.engine} gave {len(funcs)} functions for {len(model.functions)}")
    for func in dict.fromkeys(funcs):
        func.init(params)
    return funcs
