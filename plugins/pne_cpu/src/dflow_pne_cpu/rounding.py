"""Free dimensions rounded up, so that a model sees fewer shapes: less memory, fewer slow first calls.

Inputs are filled with zeros at the end of each rounded dimension. An output dimension is cut back where the model file
gives it the same symbolic name as a rounded input dimension (`N`, `width`); every other output dimension stays as the
model gave it. Answers of a model that looks across a padded dimension (convolution, pooling) may differ near its end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dflow_core.errors import OptionError
from dflow_core.spi import SameSizes
from dflow_core.types import Array, TensorSpec
from dflow_pne_cpu.facts import FileFacts
from dflow_pne_cpu.names import find_name, near


@dataclass(frozen=True, slots=True)
class Rounding:
    """Which dimensions are rounded, and which are cut back.

    Args:
        multiples: For each input, one multiple per dimension; 1 leaves it. Empty where nothing is rounded.
        crops: For each output, where the size of each dimension is taken from: (input, dimension), or None.
    """

    multiples: tuple[tuple[int, ...], ...]
    crops: tuple[tuple[tuple[int, int] | None, ...], ...]

    def to_text(self) -> str:
        """As JSON."""
        return json.dumps([self.multiples, self.crops])

    @classmethod
    def from_text(cls, text: str) -> Rounding:
        """The inverse of `to_text`."""
        multiples, crops = json.loads(text)
        return cls(
            tuple(map(tuple, multiples)),
            tuple(tuple(None if c is None else (c[0], c[1]) for c in output) for output in crops),
        )

    def pad(self, arrays: Sequence[Array]) -> list[Array]:
        """The inputs with zeros at the end of each rounded dimension; an input that fits is passed on as it is."""
        return [self._padded(array, multiples) for array, multiples in zip(arrays, self.multiples)]

    def crop(self, outputs: Sequence[Array], inputs: Sequence[Array]) -> list[Array]:
        """Views of the outputs, cut back to what belongs to the inputs as they were given."""
        return [
            output[tuple(slice(None) if c is None else slice(inputs[c[0]].shape[c[1]]) for c in crops)]
            for output, crops in zip(outputs, self.crops)
        ]

    @staticmethod
    def _padded(array: Array, multiples: tuple[int, ...]) -> Array:
        shape = tuple(-(-size // multiple) * multiple for size, multiple in zip(array.shape, multiples))
        if not multiples or shape == array.shape:
            return array
        padded = np.zeros(shape, array.dtype)
        padded[tuple(map(slice, array.shape))] = array
        return padded


def make_rounding(
    text: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], facts: FileFacts
) -> Rounding | None:
    """What `round_dims` asks for; None if it asks for nothing.

    Args:
        text: One number, for every free dimension but the first of each input (which is the batch); or one multiple per
            dimension, 1 leaving it: `1,1,1,32` by position or `name:1,1,1,32`, inputs separated by `;`.
        inputs, outputs: Tensors of the compiled model.
        facts: Symbolic names of the dimensions.

    Raises:
        OptionError: if it is not written so, or does not fit the inputs.
    """
    if not text.strip():
        return None
    if text.strip().isdigit():
        multiples = [_uniform(spec, _number(text, text)) for spec in inputs]
    else:
        multiples = _listed(text, inputs)
    sources: dict[str, tuple[int, int]] = {}
    for index, (spec, row) in enumerate(zip(inputs, multiples)):
        for axis, (symbol, multiple) in enumerate(zip(facts.symbols.get(spec.name, ()), row)):
            if symbol and multiple > 1:
                sources.setdefault(symbol, (index, axis))
    crops = tuple(
        tuple(sources.get(symbol) if symbol else None for symbol in _symbols(spec, facts)) for spec in outputs
    )
    return Rounding(tuple(map(tuple, multiples)), crops)


def find_same_sizes(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], facts: FileFacts) -> SameSizes:
    """Dimensions of outputs that the model file gives the same symbolic name as one of an input."""
    sources: dict[str, tuple[int, int]] = {}
    for index, spec in enumerate(inputs):
        for axis, symbol in enumerate(_symbols(spec, facts)):
            sources.setdefault(symbol, (index, axis))
    sources.pop("", None)
    return tuple(tuple(sources.get(symbol) for symbol in _symbols(spec, facts)) for spec in outputs)


def _symbols(spec: TensorSpec, facts: FileFacts) -> tuple[str, ...]:
    return facts.symbols.get(spec.name, ())


def _uniform(spec: TensorSpec, multiple: int) -> tuple[int, ...]:
    shape = spec.shape or ()
    return tuple(multiple if axis and size < 0 else 1 for axis, size in enumerate(shape))


def _listed(text: str, inputs: Sequence[TensorSpec]) -> list[tuple[int, ...]]:
    names = [spec.name for spec in inputs]
    rows: list[tuple[int, ...]] = [()] * len(inputs)
    for position, part in enumerate(filter(None, (piece.strip() for piece in text.split(";")))):
        name, _, sizes = part.rpartition(":")
        index = find_name(name, names) if name else position
        if not 0 <= index < len(names):
            raise OptionError(f"round_dims={text!r}: no input {name or position!r}", hint=near(name, names))
        rows[index] = _row(sizes, inputs[index], text)
    return rows


def _row(sizes: str, spec: TensorSpec, text: str) -> tuple[int, ...]:
    row = tuple(_number(size, text) for size in sizes.split(","))
    shape = spec.shape
    if shape is None or len(shape) != len(row):
        raise OptionError(f"round_dims={text!r}: input {spec.name!r} is {spec}, which has another number of dimensions")
    for axis, (size, multiple) in enumerate(zip(shape, row)):
        if size >= 0 and multiple > 1:
            raise OptionError(f"round_dims={text!r}: dimension {axis} of {spec.name!r} is fixed at {size}")
    return row


def _number(text: str, whole: str) -> int:
    if not text.strip().isdigit() or int(text) < 1:
        raise OptionError(f"round_dims={whole!r}: {text!r} is no multiple", hint="write '32' or 'x:1,1,1,32'")
    return int(text)
