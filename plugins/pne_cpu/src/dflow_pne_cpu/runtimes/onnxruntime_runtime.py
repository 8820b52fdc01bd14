# mypy: disallow-any-explicit=False
"""onnxruntime behind the interface of `base`; ONNX only.

Its compiled form is the optimised model, which fits CPUs of one kind only. A bound output must have exactly the shape
of the result, else the call fails cleanly and is repeated with memory of the library's own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from dflow_core.errors import PluginError, RunError, TensorError
from dflow_core.spi import OutputAlloc
from dflow_core.types import Array, DataType, TensorSpec, numpy_dtype_of
from dflow_pne_cpu.model_file import ONNX, ModelFile
from dflow_pne_cpu.recipe import Dims, Recipe
from dflow_pne_cpu.runtimes.base import RefusedError, Runtime, Session, Traits, words_of

_DTYPES = {
    "tensor(float)": DataType.FLOAT, "tensor(float16)": DataType.FLOAT16, "tensor(int8)": DataType.INT8,
    "tensor(int32)": DataType.INT32, "tensor(uint8)": DataType.UINT8, "tensor(int16)": DataType.INT16,
    "tensor(uint16)": DataType.UINT16, "tensor(uint32)": DataType.UINT32, "tensor(int64)": DataType.INT64,
    "tensor(uint64)": DataType.UINT64, "tensor(double)": DataType.DOUBLE, "tensor(bool)": DataType.BOOL,
    "tensor(string)": DataType.STRING, "tensor(bfloat16)": DataType.BF16,
}
_ONNX_BF16 = 16
_FATAL_ONLY = 4  # errors come as exceptions too


class OnnxRuntime(Runtime):
    """onnxruntime's CPU provider."""

    id: ClassVar[str] = "onnxruntime"
    package: ClassVar[str] = "onnxruntime"
    frameworks: ClassVar[frozenset[str]] = frozenset({ONNX})

    def prepare(self) -> None:
        try:
            import onnxruntime  # noqa: F401
        except (ImportError, OSError) as cause:
            raise PluginError(f"onnxruntime cannot be imported: {words_of(cause)}",
                              hint="pip install 'dflow-pne-cpu[onnxruntime]'") from cause

    def compile(self, file: ModelFile, recipe: Recipe, threads: int) -> Session:
        self.prepare()
        if file.framework != ONNX:
            raise RefusedError(f"onnxruntime reads ONNX files only, not {file.label}")
        if recipe.precision != "f32":
            raise RefusedError("onnxruntime computes in float32 only; precision='bf16' needs runtime='openvino'")
        options = _options(threads)
        descriptor = os.memfd_create("dflow-optimised")
        try:
            options.optimized_model_filepath = f"/proc/self/fd/{descriptor}"
            session = _read(file, options)
            size = os.fstat(descriptor).st_size
            with open(descriptor, "rb", closefd=False) as stream:
                stream.seek(0)
                blob = stream.read(size)
        finally:
            os.close(descriptor)
        return OnnxRuntimeSession(session, recipe, blob)

    def load(self, blob: bytes, recipe: Recipe, traits: Traits, threads: int) -> Session:
        self.prepare()
        import onnxruntime

        options = _options(threads)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return OnnxRuntimeSession(_create(blob, options, "does not take the compiled form"), recipe, blob)


class OnnxRuntimeSession(Session):
    """An InferenceSession and its one binding."""

    def __init__(self, session: Any, recipe: Recipe, blob: bytes) -> None:
        self._session = session
        self._blob = blob
        found_inputs = {value.name: value for value in session.get_inputs()}
        found_outputs = {value.name: value for value in session.get_outputs()}
        missing = [name for name in recipe.outputs if name not in found_outputs]
        if missing:
            raise RefusedError(f"onnxruntime finds no output {', '.join(missing)}")
        self._live = tuple(i.name in found_inputs for i in recipe.inputs)
        self.inputs = tuple(
            _narrowed(_spec_of(found_inputs[i.name]), i.dtype, i.dims) if i.name in found_inputs
            else TensorSpec(DataType.UNDEFINED, None, i.name)
            for i in recipe.inputs
        )
        self.outputs = tuple(_spec_of(found_outputs[name]) for name in recipe.outputs)
        self.traits = Traits(tuple(spec.dtype is not DataType.STRING for spec in self.outputs), steady=True)
        self._strings = any(spec.dtype is DataType.STRING for spec in (*self.inputs, *self.outputs))
        self._binding = session.io_binding()

    def run(self, inputs: Sequence[Array], targets: Sequence[Array | None], alloc: OutputAlloc) -> list[Array]:
        if self._strings:
            return self._run_unbound(inputs)
        try:
            return self._run_bound(inputs, targets, alloc)
        except RunError:
            if all(target is None or spec.shape == target.shape for target, spec in zip(targets, self.outputs)):
                raise
            return self._run_bound(inputs, [None] * len(targets), alloc)

    def export(self) -> bytes:
        return self._blob

    def close(self) -> None:
        self._binding = None
        self._session = None
        self._blob = b""

    def _run_bound(self, inputs: Sequence[Array], targets: Sequence[Array | None], alloc: OutputAlloc) -> list[Array]:
        binding = self._binding
        for array, spec, live in zip(inputs, self.inputs, self._live):
            if live:
                kind = _ONNX_BF16 if spec.dtype is DataType.BF16 else array.dtype.type
                binding.bind_input(spec.name, "cpu", 0, kind, array.shape, _address(array))
        for target, spec in zip(targets, self.outputs):
            if target is None:
                binding.bind_output(spec.name, "cpu")
            else:
                kind = _ONNX_BF16 if spec.dtype is DataType.BF16 else target.dtype.type
                binding.bind_output(spec.name, "cpu", 0, kind, target.shape, _address(target))
        try:
            self._session.run_with_iobinding(binding)
            return self._collected(targets, alloc)
        except Exception as cause:
            raise RunError(f"onnxruntime failed: {words_of(cause)}") from cause
        finally:
            binding.clear_binding_inputs()
            binding.clear_binding_outputs()

    def _collected(self, targets: Sequence[Array | None], alloc: OutputAlloc) -> list[Array]:
        if all(target is not None for target in targets):
            return [target for target in targets if target is not None]
        results = []
        for value, target, spec in zip(self._binding.get_outputs(), targets, self.outputs):
            if target is None:
                target = alloc(tuple(value.shape()), numpy_dtype_of(spec.dtype))
                if target.nbytes:
                    np.copyto(target, _view(value.data_ptr(), target))
            results.append(target)
        return results

    def _run_unbound(self, inputs: Sequence[Array]) -> list[Array]:
        try:
            feeds = {spec.name: _strings(array) if spec.dtype is DataType.STRING else array
                     for array, spec, live in zip(inputs, self.inputs, self._live) if live}
        except UnicodeDecodeError as cause:
            raise TensorError(f"bytes given to a model must be UTF-8 text: {cause}") from cause
        try:
            results: list[Array] = self._session.run([spec.name for spec in self.outputs], feeds)
        except Exception as cause:
            raise RunError(f"onnxruntime failed: {words_of(cause)}") from cause
        return results


def _options(threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = max(threads, 1)
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = _FATAL_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _read(file: ModelFile, options: Any) -> Any:
    """A session of a model file; older versions of onnxruntime take weights beside it from a folder only."""
    what, names = f"cannot read {file.label}", list(file.side_files)
    if names and not hasattr(options, "add_external_initializers_from_files_in_memory"):
        with file.opened() as path:
            return _create(path, options, what)
    if names:
        files = list(file.side_files.values())
        options.add_external_initializers_from_files_in_memory(names, files, [len(data) for data in files])
    return _create(file.data, options, what)


def _create(model: bytes | str, options: Any, what: str) -> Any:
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as cause:
        raise RefusedError(f"onnxruntime {what}: {words_of(cause)}") from cause


def _spec_of(value: Any) -> TensorSpec:
    dtype = _DTYPES.get(value.type)
    if dtype is None:
        raise RefusedError(f"{value.name!r} is a {value.type}, which dflow cannot send")
    shape = None if value.shape is None else tuple(d if isinstance(d, int) and d >= 0 else -1 for d in value.shape)
    return TensorSpec(dtype, shape, value.name)


def _narrowed(spec: TensorSpec, dtype: DataType | None, dims: Dims | None) -> TensorSpec:
    """The spec with what the config asks for; the library can neither retype an input nor widen its shape."""
    if dtype not in (None, spec.dtype):
        raise RefusedError(f"onnxruntime cannot change the dtype of input {spec.name!r}; use runtime='openvino'")
    if dims is None:
        return spec
    shape = tuple(low if low == high else -1 for low, high in dims)
    wanted = TensorSpec(spec.dtype, shape, spec.name)
    if spec.shape is not None and (
        len(shape) != len(spec.shape) or any(have >= 0 and have != want for have, want in zip(spec.shape, shape))
    ):
        text = f"onnxruntime cannot make {spec} of input {spec.name!r} into {wanted}; use runtime='openvino'"
        raise RefusedError(text)
    return wanted


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _view(address: int, like: Array) -> Array:
    """The library's own memory as an array; valid until the binding is cleared."""
    import ctypes

    raw = (ctypes.c_uint8 * like.nbytes).from_address(address)
    return np.frombuffer(raw, like.dtype).reshape(like.shape)


def _strings(array: Array) -> Array:
    """String tensors as the library takes them: an object array of `str` (it cuts kind U at the first NUL)."""
    items = [item.decode("utf-8") if isinstance(item, bytes) else item for item in array.ravel().tolist()]
    result = np.empty(len(items), object)
    result[:] = items
    return result.reshape(array.shape)
