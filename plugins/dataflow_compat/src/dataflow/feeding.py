"""What is fed, bound to the inputs of a graph as the core's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dataflow.nodes import FlowData
from dataflow.tensor import Tensor, array_of, checked_array
from dataflow.utils.errors import DfException
from dataflow.values import copied_when_fed, to_core
from dflow_core.types import Array

__all__ = ["bound_objects", "bound_tensors"]


def bound_tensors(
    inputs: Sequence[FlowData], feed_dict: Mapping[FlowData, object], partial: bool
) -> dict[int, object]:
    """An array for each input.

    Args:
        inputs: Inputs of the graph.
        feed_dict: What is fed; keys that are no inputs are left alone.
        partial: Whether inputs may be left out.

    Raises:
        DfException: nothing or too little is fed, or a value that is no tensor.
        ValueError: elements that cannot be converted.
    """
    bound: dict[int, object] = {}
    for port, data in enumerate(inputs):
        if data in feed_dict:
            bound[port] = _array(feed_dict[data], data)
        elif not partial:
            raise DfException(f"input {data.name} is not fed")
    if not bound:
        raise DfException("no input of the graph is fed")
    return bound


def bound_objects(
    inputs: Sequence[FlowData], feed_dict: Mapping[FlowData, object], partial: bool
) -> dict[int, object]:
    """An object for each input; arguments and errors as for `bound_tensors`."""
    bound: dict[int, object] = {}
    for port, data in enumerate(inputs):
        if data in feed_dict:
            value, schema = feed_dict[data], data._schema
            if isinstance(value, Tensor) and schema is not None and not schema.matches(value._impl):
                raise DfException(f"input {data.name} takes {schema}, got {value._tensor_desc}")
            bound[port] = to_core(value)
        elif not partial:
            raise DfException(f"input {data.name} is not fed")
    if not bound:
        raise DfException("no input of the graph is fed")
    return bound


def _array(value: object, data: FlowData) -> Array:
    schema = data._schema
    if isinstance(value, Tensor):
        array = value._impl
        if schema is None or schema.matches(array):
            return copied_when_fed(array)
        return checked_array(array, schema)
    return checked_array(array_of(value), schema)
