"""A model as a FlowFunc: arrays out of messages, checks, the run, arrays into messages."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dflow_core.errors import CompileError, DflowError, StartupError, TensorError, UsageError, text_of
from dflow_core.message import FlowMsg, describe
from dflow_core.model import PneModel
from dflow_core.spi import FlowFunc, FuncParams, ModelWorker, NodeWorker, RunContext, WorkerContext, WorkerLoader
from dflow_core.types import Array, DataType, TensorSpec, data_type_of, numpy_dtype_of

_SHORT = 0.005
"""Seconds of a call up to which the next one is begun before it ends."""

_WEIGHT = 0.2


@dataclass(slots=True)
class _Flight:
    """A call that was begun."""

    context: RunContext
    call: object
    began: float


class ModelFunc(FlowFunc):
    """Runs a ModelWorker on the tensors of messages.

    A null message (an end of sequence, say) is not run: it passes on as null; so does one with a code, with that code
    (runtime-semantics.md section 17).

    Short calls overlap with the work around them, if the worker can do that (`depth`) and more input waits: a call is
    begun before the one in front of it ends. Long ones gain nothing by it, and a message taken early could have gone to
    an instance that is idle, so of them only as many are begun as the worker runs at the same time (`streams`).
    """

    takes_gaps = False

    def __init__(self, worker: ModelWorker) -> None:
        self._worker = worker
        self._flights: deque[_Flight] = deque()
        self._is_ending = False
        self._mean = math.inf
        self._ended = 0.0

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        if any(msg.is_null or msg.info.ret_code for msg in inputs):
            self.settle()
            code = next((msg.info.ret_code for msg in inputs if msg.info.ret_code), 0)
            for index in range(len(self._worker.outputs)):
                context.send(index, None, changes={"ret_code": code} if code else None)
        elif self._most_flights() > 1 and context.defer():
            self._begin(context, inputs)
            while len(self._flights) >= self._most_flights():
                self._end_oldest()
        else:
            self.settle()
            arrays = [self._array(port, msg) for port, msg in enumerate(inputs)]
            began = context.now()
            results = self._worker.execute(arrays, context.alloc)
            self._learn(context.now() - began)
            self._send(context, results)

    def warm_up(self) -> None:
        """Run the model once on zeros if its inputs are known, because the first run of a model takes much longer."""
        inputs = [_zeros(spec) for spec in self._worker.inputs]
        given = [array for array in inputs if array is not None]
        if len(given) == len(inputs):
            with contextlib.suppress(Exception):  # zeros need not be anything it can work on; what is fed will tell
                self._worker.execute(given, np.empty)

    def failure(self) -> DflowError | None:
        return self._worker.failure()

    def settle(self) -> None:
        while self._flights and not self._is_ending:
            self._end_oldest()

    def close(self) -> None:
        self._flights.clear()
        self._worker.close()

    def _most_flights(self) -> int:
        """Calls that may be in flight: for long ones no more than run at the same time."""
        return self._worker.depth if self._mean < _SHORT else self._worker.streams

    def _begin(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        began = context.now()
        try:
            arrays = [self._array(port, msg) for port, msg in enumerate(inputs)]
            call = self._worker.begin(arrays, context.alloc)
        except (Exception, SystemExit):
            self.settle()  # its error comes after the answers of those in front of it
            raise
        self._flights.append(_Flight(context, call, began))

    def _end_oldest(self) -> None:
        flight = self._flights.popleft()
        self._is_ending = True
        try:
            results = self._worker.finish(flight.call)
            self._ended, before = flight.context.now(), self._ended
            self._learn(self._ended - max(flight.began, before))
            self._send(flight.context, results)
        except (Exception, SystemExit) as error:
            flight.context.complete(error)
        else:
            flight.context.complete()
        finally:
            self._is_ending = False

    def _learn(self, seconds: float) -> None:
        """Count a call's time into the mean."""
        known = self._mean < math.inf
        self._mean = self._mean + _WEIGHT * (seconds - self._mean) if known else seconds

    def _send(self, context: RunContext, results: Sequence[Array]) -> None:
        if len(results) != len(self._worker.outputs):
            raise CompileError(f"the model gave {len(results)} outputs, expected {len(self._worker.outputs)}")
        for index, result in enumerate(results):
            context.send(index, np.asarray(result))

    def _array(self, port: int, msg: FlowMsg) -> Array:
        spec = self._worker.inputs[port]
        label = f"input {port}" + (f" ({spec.name})" if spec.name else "")
        array = msg.get_tensor()
        if array is None:
            raise TensorError(
                f"{label} needs a tensor {spec}, got {describe(msg)}",
                hint="feed a plain array, and let the node in front return one: np.asarray(x), or x.filled()",
            )
        problem = spec.mismatch(data_type_of(array.dtype), array.shape)
        if problem is not None:
            raise TensorError(f"{label}: {problem}")
        return array


def _zeros(spec: TensorSpec) -> Array | None:
    if spec.shape is None or min(spec.shape, default=0) < 0 or spec.dtype in (DataType.STRING, DataType.UNDEFINED):
        return None
    return np.zeros(spec.shape, numpy_dtype_of(spec.dtype))


def load_functions(
    model: PneModel, loader: WorkerLoader, context: WorkerContext, params: FuncParams
) -> list[FlowFunc]:
    """Load a model and initialise its functions, each object once.

    Raises:
        UsageError: the model runs in a process of its own only.
        StartupError: user code or the engine raised; that is its cause.
        DflowError, KeyboardInterrupt: as they are.
    """
    try:
        return _load_functions(model, loader, context, params)
    except (DflowError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit: the same as where the node has a process of its own
        text = f"it did not come up: {type(error).__name__}: {text_of(error)}"
        raise StartupError(text, node=model.name, instance=params.instance) from error


def _load_functions(
    model: PneModel, loader: WorkerLoader, context: WorkerContext, params: FuncParams
) -> list[FlowFunc]:
    worker = loader(model, context)
    if isinstance(worker, NodeWorker):
        worker.close()
        raise UsageError(
            "this node runs in a process of its own only, not in the caller's thread", node=model.name,
            hint="leave out mode=\"inline\"; `dflow udf test` runs a C++ function in one process, under a debugger too",
        )
    return init_functions(model, worker, params)


def init_functions(
    model: PneModel, worker: ModelWorker | Sequence[FlowFunc], params: FuncParams, warm: bool = False
) -> list[FlowFunc]:
    """The functions of a loaded model, initialised, each object once.

    Args:
        model: The model.
        worker: What its loader gave.
        params: What functions are told.
        warm: Whether a model is to run once before anybody waits for it.

    Raises:
        Whatever user code or the engine raises.
    """
    funcs: list[FlowFunc] = [ModelFunc(worker)] if isinstance(worker, ModelWorker) else list(worker)
    if len(funcs) != len(model.functions):
        raise CompileError(f"engine {model.engine} gave {len(funcs)} functions for {len(model.functions)}")
    for func in dict.fromkeys(funcs):
        func.init(params)
        if warm and isinstance(func, ModelFunc):
            func.warm_up()
    return funcs
