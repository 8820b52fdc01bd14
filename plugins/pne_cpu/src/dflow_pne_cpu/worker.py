"""The ModelWorker: one loaded model, run on arrays that lie in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dflow_core.errors import CompileError, PluginError, RunError, TensorError
from dflow_core.model import GraphModel, PneModel
from dflow_core.spi import ModelWorker, OutputAlloc, WorkerContext
from dflow_core.types import Array, DataType, TensorSpec, data_type_of, numpy_dtype_of
from dflow_pne_cpu.engine import blob_tag
from dflow_pne_cpu.model_file import ModelFile
from dflow_pne_cpu.recipe import Recipe
from dflow_pne_cpu.rounding import Rounding
from dflow_pne_cpu.runtimes import RefusedError, Runtime, RuntimeSet, Session, Traits, default_runtimes
from dflow_pne_cpu.turns import take_long_turns

_Shape = tuple[int, ...]

_KNOWN_SHAPES = 4096


class CpuLoader:
    """Loads GraphModels of the CPU engine (a `WorkerLoader`)."""

    def __init__(self, runtimes: RuntimeSet | None = None) -> None:
        self._runtimes = runtimes or default_runtimes()

    def __call__(self, model: PneModel, context: WorkerContext) -> ModelWorker:
        """Load the compiled form if it was made for this library and CPU, else compile the source again.

        Raises:
            PluginError: if the library is not installed.
            CompileError: if the source cannot be compiled either.
        """
        if not isinstance(model, GraphModel):
            raise CompileError(f"the CPU engine runs no {type(model).__name__}", node=context.node)
        if context.own_thread:
            take_long_turns()
        recipe = Recipe.from_text(model.settings["recipe"])
        runtime = self._runtimes[model.settings["runtime"]]
        session = _from_blob(model, recipe, runtime, context)
        if session is None:
            session = self._from_source(model, recipe, runtime, context)
        rounding = model.settings.get("rounding")
        return CpuWorker(session, model, None if rounding is None else Rounding.from_text(rounding), context)

    def _from_source(
        self, model: GraphModel, recipe: Recipe, runtime: Runtime, context: WorkerContext
    ) -> Session:
        file = ModelFile(model.framework, model.source, model.side_files, model.settings["label"])
        try:
            return runtime.compile(file, recipe, context.threads)
        except PluginError:
            if model.settings.get("asked") != "auto":
                raise
        return self._runtimes.compile("auto", file, recipe, context.threads, context.report)[1]


def _from_blob(model: GraphModel, recipe: Recipe, runtime: Runtime, context: WorkerContext) -> Session | None:
    """The compiled form, loaded; None if it does not fit (told once) or there is none."""
    if not model.blob:
        return None
    here = blob_tag(runtime)
    if model.blob_tag != here:
        context.report(f"compiles {context.node} again: it was compiled for {model.blob_tag}, this is {here}")
        return None
    try:
        return runtime.load(model.blob, recipe, Traits.from_text(model.settings["traits"]), context.threads)
    except RefusedError as cause:
        context.report(f"compiles {context.node} again: {cause.message}")
        return None


@dataclass(slots=True)
class _Call:
    """One call on its way.

    Args:
        inputs: As they came.
        arrays: As the library takes them.
        key: Their shapes.
        targets: For each output the array to write it into, or None.
        alloc: Gives arrays for results.
        own_alloc: Gives arrays for outputs that have no target.
        ticket: The session's call, if it was started.
    """

    inputs: Sequence[Array]
    arrays: Sequence[Array]
    key: tuple[_Shape, ...]
    targets: Sequence[Array | None]
    alloc: OutputAlloc
    own_alloc: OutputAlloc
    ticket: object = None


class CpuWorker(ModelWorker):
    """Runs one session; outputs go into arrays of `alloc` wherever their shape is known beforehand."""

    def __init__(
        self, session: Session, model: GraphModel, rounding: Rounding | None, context: WorkerContext
    ) -> None:
        self.inputs = model.inputs
        self.outputs = model.outputs
        self._node = context.node
        self._instance = context.instance
        self._session: Session | None = session
        self.depth = session.depth
        self.streams = session.streams
        self._rounding = rounding
        self._limits = _limits(Recipe.from_text(model.settings["recipe"]))
        self._bindable = list(session.traits.bindable)
        self._dtypes = tuple(_numpy(spec) for spec in self.inputs)
        self._output_dtypes = tuple(_numpy(spec) or np.dtype(object) for spec in self.outputs)
        self._static = tuple(_static_shape(spec) for spec in self.outputs)
        self._known: dict[tuple[_Shape, ...], tuple[_Shape | None, ...]] = {}
        self._checked: set[tuple[_Shape, ...]] = set()

    def execute(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Sequence[Array]:
        """Run the model once.

        Raises:
            TensorError: if an array has not the dtype or shape that the model takes.
            RunError: if the model library fails.
        """
        session, call = self._prepared(inputs, alloc)
        try:
            results = session.run(call.arrays, call.targets, call.own_alloc)
        except RunError as cause:
            raise self._explained(cause, inputs) from cause
        return self._delivered(call, results)

    def begin(self, inputs: Sequence[Array], alloc: OutputAlloc) -> object:
        """Start a call.

        Raises:
            TensorError: if an array has not the dtype or shape that the model takes.
            RunError: if the model library fails.
        """
        session, call = self._prepared(inputs, alloc)
        try:
            call.ticket = session.start(call.arrays, call.targets)
        except RunError as cause:
            raise self._explained(cause, inputs) from cause
        return call

    def finish(self, call: object) -> Sequence[Array]:
        """Wait for the oldest call.

        Raises:
            RunError: if the model library fails.
        """
        assert isinstance(call, _Call)
        try:
            results = self._running().finish(call.ticket, call.own_alloc)
        except RunError as cause:
            raise self._explained(cause, call.inputs) from cause
        return self._delivered(call, results)

    def close(self) -> None:
        """Free the model."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _running(self) -> Session:
        if self._session is None:
            raise RunError("the model was used after it had been closed", node=self._node)
        return self._session

    def _prepared(self, inputs: Sequence[Array], alloc: OutputAlloc) -> tuple[Session, _Call]:
        session = self._running()
        arrays = self._fitting(inputs)
        if self._rounding is not None:
            arrays = self._rounding.pad(arrays)
        key = tuple([array.shape for array in arrays])
        shapes = self._known.get(key, self._static)
        targets = [
            None if shape is None else alloc(shape, dtype) for shape, dtype in zip(shapes, self._output_dtypes)
        ]
        own_alloc: OutputAlloc = np.empty if self._rounding is not None else alloc
        return session, _Call(inputs, arrays, key, targets, alloc, own_alloc)

    def _delivered(self, call: _Call, results: Sequence[Array]) -> Sequence[Array]:
        if call.key not in self._known:
            self._learn(call.key, results)
        elif any(result is not target for result, target in zip(results, call.targets) if target is not None):
            self._unlearn(results, call.targets)
        return results if self._rounding is None else self._cropped(results, call.inputs, call.alloc)

    def _fitting(self, inputs: Sequence[Array]) -> list[Array]:
        """The arrays as a library takes them: of the right dtype and shape, contiguous, in native byte order."""
        if len(inputs) != len(self._dtypes):
            raise TensorError(f"the model takes {len(self._dtypes)} inputs, got {len(inputs)}", node=self._node)
        arrays = []
        for index, (array, dtype) in enumerate(zip(inputs, self._dtypes)):
            if dtype is None or array.dtype != dtype:
                array = self._converted(index, array)
            arrays.append(array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape))
        key = tuple([array.shape for array in arrays])
        if key not in self._checked:
            self._check_shapes(key)
        return arrays

    def _converted(self, index: int, array: Array) -> Array:
        spec = self.inputs[index]
        dtype = data_type_of(array.dtype) if array.dtype.kind != "O" else DataType.STRING
        if spec.dtype in (dtype, DataType.UNDEFINED):
            return array if dtype is DataType.STRING else array.astype(array.dtype.newbyteorder("="), copy=False)
        if spec.dtype is DataType.BF16 and dtype is DataType.UINT16:
            return array.astype(np.uint16, copy=False).view(numpy_dtype_of(DataType.BF16))
        raise self._misfit(index, spec.mismatch(dtype, array.shape) or "dtype differs")

    def _check_shapes(self, key: tuple[_Shape, ...]) -> None:
        for index, (spec, shape, limits) in enumerate(zip(self.inputs, key, self._limits)):
            fault = TensorSpec(DataType.UNDEFINED, spec.shape).mismatch(spec.dtype, shape)
            if fault is not None:
                raise self._misfit(index, spec.mismatch(spec.dtype, shape) or fault)
            for axis, (size, (low, high)) in enumerate(zip(shape, limits)):
                if size < low or 0 <= high < size:
                    raise self._misfit(index, f"dimension {axis} is {size}, but the config allows {low} to {high}")
        if len(self._checked) < _KNOWN_SHAPES:
            self._checked.add(key)

    def _misfit(self, index: int, fault: str) -> TensorError:
        return TensorError(f"input {index} ({self.inputs[index].name!r}) does not fit: {fault}", node=self._node,
                           instance=self._instance)

    def _learn(self, key: tuple[_Shape, ...], results: Sequence[Array]) -> None:
        """Remember the output shapes that inputs of these shapes give, where they cannot depend on data."""
        if len(self._known) >= _KNOWN_SHAPES:
            self._known.clear()
        self._known[key] = tuple(
            result.shape if bindable else None for result, bindable in zip(results, self._bindable)
        )

    def _unlearn(self, results: Sequence[Array], targets: Sequence[Array | None]) -> None:
        """Never again bind an output that turned out not to have the shape of an earlier call."""
        for index, (result, target) in enumerate(zip(results, targets)):
            if target is not None and result is not target:
                self._bindable[index] = False
        self._known.clear()

    def _cropped(self, results: Sequence[Array], inputs: Sequence[Array], alloc: OutputAlloc) -> list[Array]:
        assert self._rounding is not None
        cropped = []
        for result, whole in zip(self._rounding.crop(results, inputs), results):
            if result.shape == whole.shape:
                cropped.append(whole)
                continue
            target = alloc(result.shape, result.dtype)
            np.copyto(target, result)
            cropped.append(target)
        return cropped

    def _explained(self, cause: RunError, inputs: Sequence[Array]) -> RunError:
        shapes = ", ".join(f"{spec.name} {array.dtype}{list(array.shape)}" for spec, array in zip(self.inputs, inputs))
        return RunError(f"{cause.message}; inputs: {shapes}", node=self._node, instance=self._instance)


def _numpy(spec: TensorSpec) -> np.dtype[np.generic] | None:
    if spec.dtype in (DataType.STRING, DataType.UNDEFINED):
        return None
    return numpy_dtype_of(spec.dtype)


def _static_shape(spec: TensorSpec) -> _Shape | None:
    if spec.shape is None or spec.dtype is DataType.STRING or any(size < 0 for size in spec.shape):
        return None
    return spec.shape


def _limits(recipe: Recipe) -> tuple[Sequence[tuple[int, int]], ...]:
    return tuple(() if i.dims is None else i.dims for i in recipe.inputs)
