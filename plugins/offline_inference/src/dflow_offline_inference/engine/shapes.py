"""What a model takes, and which requests can share one call of it.

Rows lie along the first axis. Requests can share a call if their arrays are equal in dtype and in all other dimensions,
or would be after those were rounded up to a bucket; what was filled up is cut off the outputs again where the model
says which of their dimensions equals which of an input.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dflow_core.errors import OptionError, TensorError
from dflow_core.spi import SameSizes
from dflow_core.types import Array, DataType, TensorSpec, data_type_of, numpy_dtype_of
from dflow_offline_inference.requests import GroupKey

_MOST_KNOWN = 1024


@dataclass(frozen=True, slots=True)
class Fit:
    """What is known of a request from its dtypes and shapes.

    Args:
        rows: Rows it takes in a batch.
        group: What it can share a call with; None runs alone.
        padded: Whether it is filled up.
        bytes: Bytes of its inputs, as the model gets them, and of its outputs, as far as they are known.
    """

    rows: int
    group: GroupKey | None
    padded: bool
    bytes: int


class ModelShapes:
    """Checks requests for one model and says what they can share. Thread-safe.

    Args:
        name: Name of the model, for errors.
        inputs, outputs: What it takes and gives.
        same: Which dimensions of its outputs equal which of its inputs; empty where nobody knows.
        buckets: For inputs by name, what each dimension is rounded up to; 1 leaves it.
        batch: Rows that may share a call.

    Raises:
        OptionError: if a batch or a bucket is asked for that the model cannot take.
    """

    def __init__(
        self, name: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], same: SameSizes = (), *,
        buckets: Mapping[str, Sequence[int]] | None = None, batch: int = 1,
    ) -> None:
        self.name = name
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.input_names = _names(self.inputs, "input")
        self.output_names = _names(self.outputs, "output")
        self.same = same or tuple(() for _ in self.outputs)
        self.buckets = _buckets(name, self.inputs, self.input_names, buckets or {})
        self.batch = batch
        self._known: dict[tuple[object, ...], Fit] = {}
        if batch > 1 and (reason := self._no_batch()):
            raise OptionError(f"model {name!r} cannot take batch={batch}: {reason}", hint="leave batch at 1")

    def arrays(self, values: object) -> tuple[Array, ...]:
        """The arrays of a request in the model's order.

        Args:
            values: A mapping by input name, a tuple or list in order, or the only array.

        Raises:
            TensorError: an input is missing, is not one of the model's, or is no array.
        """
        if isinstance(values, np.ndarray) and len(self.inputs) == 1:
            return (values,)
        if isinstance(values, Mapping):
            return tuple(self._array(n, values[n]) for n in self._matched(values))
        if isinstance(values, (tuple, list)) and len(values) == len(self.inputs):
            return tuple(map(self._array, self.input_names, values))
        got = f"{len(values)} arrays" if isinstance(values, (tuple, list)) else f"a {type(values).__name__}"
        raise TensorError(
            f"model {self.name!r} takes {self._wanted()}; got {got}",
            hint="give a mapping of arrays by input name" if len(self.inputs) > 1 else "give a numpy array",
        )

    def fit(self, arrays: Sequence[Array]) -> Fit:
        """Check the arrays of a request.

        Raises:
            TensorError: a dtype or a shape that does not fit; names all of them.
        """
        key = tuple([(array.dtype, array.shape) for array in arrays])
        known = self._known.get(key)
        if known is None:
            known = self._examined(arrays)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = known
        return known

    def padded_shape(self, index: int, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of an input after rounding up; its rows stay."""
        multiples = self.buckets[index]
        if not multiples:
            return tuple(shape)
        return (shape[0], *(-(-size // multiple) * multiple for size, multiple in zip(shape[1:], multiples[1:])))

    def cut(self, index: int, output: Array, inputs: Sequence[Array]) -> Array:
        """A view of an output without what belongs to the padding of these inputs."""
        sources = self.same[index]
        if not sources:
            return output
        parts = [slice(None)] * output.ndim
        for axis, source in enumerate(sources[: output.ndim]):
            if axis and source is not None and self.buckets[source[0]]:
                parts[axis] = slice(inputs[source[0]].shape[source[1]])
        return output[tuple(parts)]

    def _matched(self, values: Mapping[str, object]) -> tuple[str, ...]:
        missing = [name for name in self.input_names if name not in values]
        extra = [str(name) for name in values if name not in self.input_names]
        if missing or extra:
            faults = [f"no input {', '.join(map(repr, missing))}"] if missing else []
            faults += [f"{', '.join(map(repr, extra))} is none of its inputs"] if extra else []
            raise TensorError(f"model {self.name!r}: {'; '.join(faults)}", hint=f"it takes {self._wanted()}")
        return self.input_names

    def _array(self, name: str, value: object) -> Array:
        if isinstance(value, np.ndarray):
            return value
        if isinstance(value, (list, tuple, int, float, bool, np.generic)):
            return np.asarray(value)
        raise TensorError(f"model {self.name!r}: input {name!r} is a {type(value).__name__}, not an array",
                          hint="give a numpy array")

    def _examined(self, arrays: Sequence[Array]) -> Fit:
        faults = []
        for name, spec, array in zip(self.input_names, self.inputs, arrays):
            try:
                fault = spec.mismatch(data_type_of(array.dtype), array.shape)
            except TensorError as error:
                fault = error.message
            if fault is not None:
                faults.append(f"input {name!r}: {fault}")
        if faults:
            raise TensorError(f"model {self.name!r}: {'; '.join(faults)}", hint=f"it takes {self._wanted()}")
        shapes = [self.padded_shape(index, array.shape) for index, array in enumerate(arrays)]
        padded = any(shape != array.shape for shape, array in zip(shapes, arrays))
        rows = arrays[0].shape[0] if arrays and arrays[0].ndim else 1
        plain = all(array.ndim and array.shape[0] == rows and array.dtype.kind not in "OSU" for array in arrays)
        shared = plain and rows > 0 and (padded or (self.batch > 1 and rows <= self.batch))
        group: GroupKey | None = None
        if shared:
            group = tuple((array.dtype.newbyteorder("=").str, shape[1:]) for array, shape in zip(arrays, shapes))
        size = sum(math.prod(shape) * array.dtype.itemsize for array, shape in zip(arrays, shapes))
        return Fit(max(rows, 1), group, padded, size + self._output_bytes(rows))

    def _output_bytes(self, rows: int) -> int:
        total = 0
        for spec in self.outputs:
            if spec.shape is not None and spec.dtype not in (DataType.STRING, DataType.UNDEFINED):
                sizes = [rows if axis == 0 and size < 0 else max(size, 1) for axis, size in enumerate(spec.shape)]
                total += math.prod(sizes) * numpy_dtype_of(spec.dtype).itemsize
        return total

    def _no_batch(self) -> str:
        """Why requests cannot share a call, or ""."""
        for what, names, specs in (
            ("input", self.input_names, self.inputs), ("output", self.output_names, self.outputs)
        ):
            for name, spec in zip(names, specs):
                if spec.shape is None:
                    return f"the number of dimensions of {what} {name!r} is unknown"
                if not spec.shape or spec.shape[0] >= 0:
                    return f"the first dimension of {what} {name!r} is not free: {spec}"
        for name, sources in zip(self.output_names, self.same):
            if sources and (sources[0] is None or sources[0][1] != 0):
                return f"the first dimension of output {name!r} is not that of an input"
        return ""

    def _wanted(self) -> str:
        return ", ".join(f"{name} {spec}" for name, spec in zip(self.input_names, self.inputs))


def _names(specs: Sequence[TensorSpec], what: str) -> tuple[str, ...]:
    return tuple(spec.name or f"{what}{index}" for index, spec in enumerate(specs))


def _buckets(
    model: str, inputs: Sequence[TensorSpec], names: Sequence[str], wanted: Mapping[str, Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise OptionError(f"model {model!r}: buckets for {unknown[0]!r}, which is none of its inputs",
                          hint=f"its inputs are {', '.join(names)}")
    rows = []
    for name, spec in zip(names, inputs):
        row = tuple(wanted.get(name, ()))
        if row and (spec.shape is None or len(spec.shape) != len(row)):
            raise OptionError(f"model {model!r}: buckets {list(row)} for input {name!r}, which is {spec}",
                              hint="give one number for each dimension; 1 leaves it as it is")
        for size, multiple in zip(spec.shape or (), row):
            if multiple < 1 or (multiple > 1 and size >= 0):
                raise OptionError(f"model {model!r}: a dimension of input {name!r} ({spec}) cannot be rounded up to "
                                  f"multiples of {multiple}")
        rows.append(() if all(multiple == 1 for multiple in row) else row)
    return tuple(rows)
