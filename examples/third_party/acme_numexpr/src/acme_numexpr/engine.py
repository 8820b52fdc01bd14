"""Compiles expressions and runs them; the only module that imports numexpr."""

from __future__ import annotations

from collections.abc import Sequence

import numexpr
import numpy as np

from acme_numexpr.points import ExprPoint, from_bytes, to_bytes
from dflow_core.errors import CompileError
from dflow_core.graph import ProcessPoint
from dflow_core.model import PneModel, SerializedModel
from dflow_core.spi import CompileContext, Engine, ModelWorker, OutputAlloc, PointIO, WorkerContext
from dflow_core.types import Array, FuncSpec, TensorSpec, data_type_of

ENGINE_ID = "NUMEXPR"

_TYPES: dict[str, type] = {
    "float32": float,  # that is how numexpr calls it
    "float64": np.float64,
    "int32": np.int32,
    "int64": np.int64,
    "bool": bool,
}


class Program:
    """A compiled expression.

    Args:
        point: The expression and its inputs.

    Raises:
        ValueError, SyntaxError, TypeError: if it is none.
    """

    def __init__(self, point: ExprPoint) -> None:
        signature = [(name, _TYPES[dtype]) for name, dtype in zip(point.inputs, point.dtypes)]
        self._run = numexpr.NumExpr(point.expression, signature)
        result = np.asarray(self._run(*(np.ones(2, dtype) for dtype in point.dtypes)))
        specs = zip(point.inputs, point.dtypes)
        self.inputs = tuple(TensorSpec(data_type_of(dtype), None, name) for name, dtype in specs)
        self.dtype: np.dtype[np.generic] = result.dtype
        self.is_elementwise = result.shape == (2,)
        self.output = TensorSpec(data_type_of(result.dtype), None)

    def __call__(self, arrays: Sequence[Array], alloc: OutputAlloc) -> Array:
        """Compute it, straight into memory of the caller's where the size of the result is known before."""
        if not self.is_elementwise:
            return np.asarray(self._run(*arrays))
        out = alloc(np.broadcast_shapes(*(array.shape for array in arrays)), self.dtype)
        self._run(*arrays, out=out, order="C", casting="safe", ex_uses_vml=False)
        return out


class ExprEngine(Engine):
    """Turns ExprPoints into models: checks the expression, and keeps it as text."""

    id = ENGINE_ID

    def describe(self, point: ProcessPoint) -> PointIO | None:
        """Types of inputs and output; shapes are free."""
        program = _compile(point, point.name)
        return PointIO(program.inputs, (program.output,))

    def cache_key(self, point: ProcessPoint, context: CompileContext) -> bytes:
        """The point, and numexpr's version."""
        return to_bytes(point) + str(numexpr.__version__).encode()

    def compile(self, point: ProcessPoint, context: CompileContext) -> PneModel:
        """Check ports and expression."""
        program = _compile(point, context.node)
        if (context.input_count, context.output_count) != (len(program.inputs), 1):
            raise CompileError(
                f"the expression has {len(program.inputs)} inputs and 1 output, "
                f"the node has {context.input_count} and {context.output_count}", node=context.node,
            )
        return SerializedModel(
            name=context.node, engine=self.id, inputs=program.inputs, outputs=(program.output,),
            functions=(FuncSpec("", tuple(range(len(program.inputs))), (0,)),), data=to_bytes(point),
        )


class ExprWorker(ModelWorker):
    """Runs one expression.

    Args:
        program: The compiled expression.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.inputs, self.outputs = program.inputs, (program.output,)

    def execute(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Sequence[Array]:
        """Compute it once."""
        return [self._program(inputs, alloc)]

    def close(self) -> None:
        """There is nothing to free."""


def load(model: PneModel, context: WorkerContext) -> ModelWorker:
    """Load a model in an executor."""
    assert isinstance(model, SerializedModel)
    numexpr.set_num_threads(max(1, context.threads))
    return ExprWorker(_compile(from_bytes(model.data), context.node))


def _compile(point: ProcessPoint, node: str) -> Program:
    assert isinstance(point, ExprPoint)
    try:
        return Program(point)
    except (ValueError, SyntaxError, TypeError, AttributeError, KeyError) as cause:
        raise CompileError(
            f"{point.expression!r} is no expression over {', '.join(point.inputs)}: {cause}", node=node
        ) from cause
