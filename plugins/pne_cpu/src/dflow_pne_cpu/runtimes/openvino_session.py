# mypy: disallow-any-explicit=False
"""A model that OpenVINO has compiled or loaded, run on the caller's memory; `openvino_runtime` tells what shapes it."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dflow_core.errors import RunError, TensorError
from dflow_core.spi import OutputAlloc
from dflow_core.types import Array, DataType, TensorSpec, numpy_dtype_of
from dflow_pne_cpu.names import spellings
from dflow_pne_cpu.recipe import Recipe
from dflow_pne_cpu.runtimes.base import RefusedError, Session, Traits, words_of
from dflow_pne_cpu.runtimes.openvino_reader import ELEMENT_TYPES

_DTYPES = {name: dtype for dtype, name in ELEMENT_TYPES.items()}
_MOST_SHAPES = 4096
_INT32 = np.iinfo(np.int32)
_BUILTIN_DTYPES = frozenset(range(24))
_MARK = np.frombuffer(b"\x93\xd7\x5a\x0e\xb1\x6f\xc4\x28", np.uint8)
_MARK_BYTES = _MARK.tobytes()


class SavedForm:
    """The compiled form of a model. It is taken from the model once: one that was loaded saves itself wrongly."""

    def __init__(self, core: Any, config: Mapping[str, Any], blob: bytes = b"") -> None:
        self._core = core
        self._config = config
        self._blob = blob

    def take(self, compiled: Any) -> bytes:
        """The compiled form of a model that was compiled here, or the one it was loaded from."""
        self._blob = self._blob or compiled.export_model().getvalue()
        return self._blob

    def load(self) -> Any:
        """A fresh model."""
        return self._core.import_model(self._blob, "CPU", self._config)


@dataclass(slots=True, eq=False)
class _Slot:
    """A request, tensors of its own for its outputs (they grow as results need), and which outputs have others."""

    request: Any
    own: tuple[Any, ...]
    bound: list[bool]


@dataclass(slots=True, eq=False)
class _Flight:
    """A call that was started; without a slot it has to be made again."""

    slot: _Slot | None
    inputs: Sequence[Array]
    targets: Sequence[Array | None]


class OpenVinoSession(Session):
    """A compiled model and its requests: the first for all calls made one by one, both for calls that overlap."""

    def __init__(
        self, compiled: Any, recipe: Recipe, traits: Traits, saved: SavedForm
    ) -> None:
        import openvino

        self._ov = openvino
        self._compiled = compiled
        self._saved = saved
        self._broken = False
        self._feeds = tuple(_find_port(compiled.inputs, i.name) for i in recipe.inputs)
        self.inputs = tuple(
            _spec_of(compiled.inputs[feed], i.name) if feed >= 0 else TensorSpec(DataType.UNDEFINED, None, i.name)
            for feed, i in zip(self._feeds, recipe.inputs)
        )
        if len(compiled.outputs) != len(recipe.outputs) or len(traits.bindable) != len(recipe.outputs):
            raise RefusedError(f"OpenVINO gives {len(compiled.outputs)} outputs where {len(recipe.outputs)} are wanted")
        self.outputs = tuple(_spec_of(port, name) for port, name in zip(compiled.outputs, recipe.outputs))
        self.traits = traits
        self._types = tuple(port.get_element_type() for port in compiled.inputs)
        self._output_types = tuple(port.get_element_type() for port in compiled.outputs)
        self._slots: list[_Slot] = []
        self._flights: deque[_Flight] = deque()
        self._wide = {
            feed: spec.name for feed, spec in zip(self._feeds, self.inputs)
            if spec.dtype in (DataType.INT64, DataType.UINT64)
        }
        self._tensor = openvino.Tensor
        self._shapes: dict[tuple[int, ...], Any] = {}
        self._proven: set[tuple[tuple[int, ...], ...]] = set()
        self._slots.append(self._new_slot())
        self._stateful = bool(self._slots[0].request.query_state())
        self.streams = 1 if self._stateful else recipe.streams
        self.depth = 1 if self._stateful else max(2, recipe.streams)

    def run(self, inputs: Sequence[Array], targets: Sequence[Array | None], alloc: OutputAlloc) -> list[Array]:
        if self._broken:
            self._mend()
        slot = self._slots[0]
        self._set_tensors(slot, inputs, targets)
        shapes = tuple([array.shape for array in inputs])
        if shapes not in self._proven or not self._ran_here(slot, targets):
            self._hand_over(slot)
            self._wait(slot, shapes)
        return self._results(slot, targets, alloc)

    def start(self, inputs: Sequence[Array], targets: Sequence[Array | None]) -> object:
        if self._broken:
            self._mend()
        flight = _Flight(self._free_slot(), inputs, targets)
        assert flight.slot is not None
        self._set_tensors(flight.slot, inputs, targets)
        self._hand_over(flight.slot)
        self._flights.append(flight)
        return flight

    def finish(self, call: object, alloc: OutputAlloc) -> list[Array]:
        flight = self._flights[0]
        assert flight is call, "calls are finished in the order they were started in"
        try:
            if self._broken:
                self._mend()
        finally:
            self._flights.popleft()
        if flight.slot is None:
            flight.slot = self._free_slot()
            self._set_tensors(flight.slot, flight.inputs, flight.targets)
            self._hand_over(flight.slot)
        self._wait(flight.slot, tuple([array.shape for array in flight.inputs]))
        return self._results(flight.slot, flight.targets, alloc)

    def export(self) -> bytes:
        try:
            return self._saved.take(self._compiled)
        except Exception as cause:
            raise RefusedError(f"OpenVINO cannot save the compiled form: {words_of(cause)}") from cause

    def close(self) -> None:
        self._drain()
        self._flights.clear()
        self._slots.clear()
        self._compiled = None

    def _set_tensors(self, slot: _Slot, inputs: Sequence[Array], targets: Sequence[Array | None]) -> None:
        request = slot.request
        for feed, array in zip(self._feeds, inputs):
            if feed >= 0:
                if feed in self._wide:
                    _refuse_wide(array, self._wide[feed])
                request.set_input_tensor(feed, self._wrapped(array, self._types[feed]))
        for index, target in enumerate(targets):
            if target is not None:
                request.set_output_tensor(index, self._wrapped(target, self._output_types[index]))
                slot.bound[index] = True
            elif slot.bound[index]:
                request.set_output_tensor(index, slot.own[index])
                slot.bound[index] = False

    def _results(self, slot: _Slot, targets: Sequence[Array | None], alloc: OutputAlloc) -> list[Array]:
        return [
            self._copied(slot, index, alloc) if target is None else target for index, target in enumerate(targets)
        ]

    def _free_slot(self) -> _Slot:
        busy = [flight.slot for flight in self._flights]
        for slot in self._slots:
            if slot not in busy:
                return slot
        self._slots.append(self._new_slot())
        return self._slots[-1]

    def _drain(self) -> None:
        """Wait for all calls in flight; their answers are not used."""
        for flight in self._flights:
            if flight.slot is not None:
                with contextlib.suppress(Exception):
                    flight.slot.request.wait()
                flight.slot = None

    def _ran_here(self, slot: _Slot, targets: Sequence[Array | None]) -> bool:
        """Run in this thread; whether it is certain that the answers are there."""
        marks = []
        for target in targets:
            if target is None or not target.nbytes:
                return False
            mark = target.reshape(-1).view(np.uint8)[-len(_MARK):]
            mark[:] = _MARK[: len(mark)]
            marks.append(mark)
        try:
            slot.request.infer(share_outputs=True)
        except Exception:
            return False
        return all(mark.tobytes() != _MARK_BYTES[: len(mark)] for mark in marks)

    def _hand_over(self, slot: _Slot) -> None:
        """Start a call in a thread of the library, which tells of failures."""
        try:
            if self._stateful:
                slot.request.reset_state()
            slot.request.start_async()
        except Exception as cause:
            raise self._failed(cause) from cause

    def _wait(self, slot: _Slot, shapes: tuple[tuple[int, ...], ...]) -> None:
        try:
            slot.request.wait()
        except Exception as cause:
            raise self._failed(cause) from cause
        if self.traits.steady and not self._stateful and len(self._proven) < _MOST_SHAPES:
            self._proven.add(shapes)

    def _failed(self, cause: Exception) -> RunError:
        self._broken = True
        self._proven.clear()
        return RunError(f"OpenVINO failed: {words_of(cause)}")

    def _wrapped(self, array: Array, kind: Any) -> Any:
        """The array's memory as a tensor; it is neither copied nor kept alive."""
        if array.dtype.num not in _BUILTIN_DTYPES:  # bfloat16
            array = array.view(np.uint16)
        shape = self._shapes.get(array.shape)
        if shape is None:
            shape = self._ov.Shape(array.shape)
            if len(self._shapes) < _MOST_SHAPES:
                self._shapes[array.shape] = shape
        return self._tensor(array if array.flags.writeable else _writable_alias(array), shape, kind)

    def _mend(self) -> None:
        """A model as it was before a call failed; calls in flight are ended, and made again when they are finished."""
        self._drain()
        self._saved.take(self._compiled)
        self._slots, self._compiled = [], None
        self._compiled = self._saved.load()
        self._slots.append(self._new_slot())
        self._broken = False

    def _new_slot(self) -> _Slot:
        shapes = (port.get_partial_shape() for port in self._compiled.outputs)
        own = tuple(self._ov.Tensor(kind, _least(shape)) for kind, shape in zip(self._output_types, shapes))
        return _Slot(self._compiled.create_infer_request(), own, [False] * len(own))

    def _copied(self, slot: _Slot, index: int, alloc: OutputAlloc) -> Array:
        own = slot.request.get_output_tensor(index)
        spec, data = self.outputs[index], own.data
        array = alloc(tuple(own.shape), numpy_dtype_of(spec.dtype))
        np.copyto(array, data.view(array.dtype))
        return array


def _least(shape: Any) -> list[int]:
    """The shape with every free dimension 0."""
    return [dim.get_length() if dim.is_static else 0 for dim in shape] if shape.rank.is_static else [0]


class _Exposed:
    """Something numpy makes an array of by address."""

    __slots__ = ("__array_interface__",)

    def __init__(self, interface: Mapping[str, Any]) -> None:
        self.__array_interface__ = interface


def _writable_alias(array: Array) -> Array:
    """The same memory as an array that may be written, for a library that insists; nobody writes to it."""
    interface = array.__array_interface__
    interface["data"] = (interface["data"][0], False)
    return np.asarray(_Exposed(interface))


def _refuse_wide(array: Array, name: str) -> None:
    if array.size and (array.max() > _INT32.max or array.min() < _INT32.min):
        raise TensorError(
            f"input {name!r} holds {array.flat[np.abs(array.astype(np.float64)).argmax()]}, but OpenVINO computes "
            f"{array.dtype} in 32 bits", hint="use runtime='onnxruntime' for this model",
        )


def _find_port(ports: Sequence[Any], name: str) -> int:
    """Index of the port of that name; -1 where the library dropped it because nothing reads it."""
    wanted = set(spellings(name))
    return next((index for index, port in enumerate(ports) if port.get_names() & wanted), -1)


def _spec_of(port: Any, name: str) -> TensorSpec:
    dtype = _DTYPES.get(port.get_element_type().to_string(), DataType.UNDEFINED)
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return TensorSpec(dtype, None, name)
    return TensorSpec(dtype, tuple(d.get_length() if d.is_static else -1 for d in shape), name)
