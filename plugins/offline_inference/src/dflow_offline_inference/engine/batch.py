"""A batch: arrays of several requests as one call of a model, and its outputs back to each of them.

Input and output arrays of a call lie in buffers that are made once and used again. A `Buffers` has one busy flag, so
that no two batches ever share it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dflow_core.errors import RunError
from dflow_core.types import Array
from dflow_offline_inference.engine.shapes import ModelShapes
from dflow_offline_inference.requests import Request

_MOST_KEPT = 16


class RowsError(RunError):
    """Outputs of a batch have not the rows of its inputs: the model does not treat rows one by one."""


class Buffers:
    """Arrays for the inputs and outputs of one call at a time."""

    def __init__(self) -> None:
        self._busy = threading.Lock()
        self._inputs: dict[object, tuple[Array, ...]] = {}
        self._outputs: dict[tuple[tuple[int, ...], np.dtype[np.generic]], list[Array]] = {}
        self._given: dict[tuple[tuple[int, ...], np.dtype[np.generic]], int] = {}

    @property
    def busy(self) -> bool:
        """Whether a batch uses them."""
        return self._busy.locked()

    def claim(self) -> bool:
        """Take them for a batch; False if another one has them."""
        if not self._busy.acquire(blocking=False):
            return False
        self._given.clear()
        return True

    def release(self) -> None:
        """Give them back; only when nothing is in flight that uses them."""
        self._busy.release()

    def inputs(self, key: object, shapes: Sequence[tuple[int, ...]], like: Sequence[Array], rows: int) -> list[Array]:
        """Arrays for the inputs of a call, with room for `rows` or more."""
        kept = self._inputs.get(key)
        if kept is None or kept[0].shape[0] < rows:
            if len(self._inputs) >= _MOST_KEPT:
                self._inputs.clear()
            kept = tuple(np.empty((rows, *shape), array.dtype.newbyteorder("=")) for shape, array in zip(shapes, like))
            self._inputs[key] = kept
        return [array[:rows] for array in kept]

    def alloc(self, shape: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
        """An array for an output of the call under way (an `OutputAlloc`)."""
        key = (tuple(shape), dtype)
        number = self._given.get(key, 0)
        self._given[key] = number + 1
        kept = self._outputs.get(key)
        if kept is None:
            if len(self._outputs) >= _MOST_KEPT:
                self._outputs.clear()
            kept = self._outputs[key] = []
        if number == len(kept):
            kept.append(np.empty(key[0], dtype))
        return kept[number]


@dataclass(slots=True)
class Batch:
    """Requests that share one call.

    Args:
        requests: They, in order.
        inputs: The arrays of each, which it may let go when it ends before the call does.
        rows: Rows of all together.
    """

    requests: Sequence[Request]
    inputs: Sequence[tuple[Array, ...]]
    rows: int

    def singles(self) -> list[Batch]:
        """Each request as a batch of its own."""
        return [Batch((request,), (arrays,), request.rows) for request, arrays in zip(self.requests, self.inputs)]

    def gather(self, shapes: ModelShapes, buffers: Buffers, capacity: int) -> Sequence[Array]:
        """The inputs of the call: one request's own arrays, or all of them one below the other in the buffers."""
        first = self.inputs[0]
        if len(self.requests) == 1 and not self.requests[0].padded:
            return first
        wanted = [shapes.padded_shape(index, array.shape) for index, array in enumerate(first)]
        room = max(self.rows, capacity)
        targets = buffers.inputs(self.requests[0].group, [shape[1:] for shape in wanted], first, room)
        targets = [target[: self.rows] for target in targets]
        for index, target in enumerate(targets):
            parts = [arrays[index] for arrays in self.inputs]
            if all(part.shape[1:] == target.shape[1:] for part in parts):
                np.concatenate(parts, out=target)
            else:
                _fill(target, parts)
        return targets

    def scatter(self, shapes: ModelShapes, results: Sequence[Array]) -> list[tuple[Array, ...]]:
        """The outputs of each request, in memory that is nobody else's.

        Raises:
            RowsError: the outputs have not as many rows as the inputs.
        """
        if len(results) != len(shapes.outputs):
            raise RunError(f"the model gave {len(results)} outputs, expected {len(shapes.outputs)}")
        if len(self.requests) == 1:
            (inputs,) = self.inputs
            if not self.requests[0].padded:
                return [tuple([_own(np.asarray(result), result) for result in results])]
            return [tuple(_own(shapes.cut(i, np.asarray(r), inputs), r) for i, r in enumerate(results))]
        for name, result in zip(shapes.output_names, results):
            if result.ndim == 0 or result.shape[0] != self.rows:
                raise RowsError(f"output {name!r} is {result.dtype}{list(result.shape)} for {self.rows} rows")
        scattered, start = [], 0
        for request, inputs in zip(self.requests, self.inputs):
            stop = start + request.rows
            parts = [shapes.cut(index, result[start:stop], inputs) for index, result in enumerate(results)]
            scattered.append(tuple([part.copy() for part in parts]))
            start = stop
        return scattered


def _fill(target: Array, parts: Sequence[Array]) -> None:
    """Each part into the corner of its rows; zeros around it."""
    target[...] = np.zeros((), target.dtype)
    start = 0
    for part in parts:
        stop = start + part.shape[0]
        target[(slice(start, stop), *map(slice, part.shape[1:]))] = part
        start = stop


def _own(part: Array, whole: Array) -> Array:
    """The array itself if it is an ordinary one, whole and writable; else a copy."""
    return part if part is whole and part.flags.writeable else part.copy()
