"""What a model file says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dflow_core.types import TensorSpec


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What can be read from a model file without a model library.

    Args:
        inputs, outputs: Its tensors, in the file's order; the dtype is UNDEFINED where the file does not say.
        symbols: Symbolic names of the dimensions of an input or output, by tensor name; "" where one has none.
        tensors: Other nodes whose tensors can be asked for as outputs, with their number of ports; 0 if unknown.
        unsupported: Why an input or output can be no tensor of dflow, by name.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    symbols: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tensors: Mapping[str, int] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
