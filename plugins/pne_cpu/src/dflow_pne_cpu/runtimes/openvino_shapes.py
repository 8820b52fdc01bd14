# mypy: disallow-any-explicit=False
"""Which shapes of a model follow from the shapes of its inputs alone, asked of OpenVINO's shape inference.

Decides where an output may be written straight into a block, so it must never say yes wrongly: shape inference is run
without data, for two samples of input shapes, and models with branches or loops are not trusted at all.
"""

from __future__ import annotations

from typing import Any

from dflow_pne_cpu.runtimes.base import Traits

_CONTROL_FLOW = frozenset({"If", "Loop", "TensorIterator"})
# (first dimension, every other free dimension): models differ in what they take, so several are tried.
_SAMPLES = ((1, 64), (2, 96), (64, 64), (96, 96), (1, 32), (3, 128), (2, 8), (4, 256), (2, 2), (1, 224), (2, 320))


def traits_of(model: Any) -> Traits:
    """Which shapes follow from the input shapes alone.

    Those do that are static, or that the shape inference of the library, which sees no data, finds static for two
    different samples of input shapes; never behind control flow, whose branches may have shapes of their own.
    """
    if any(op.get_type_name() in _CONTROL_FLOW for op in model.get_ops()):
        return Traits(_static_outputs(model), steady=False)
    if all(port.get_partial_shape().is_static for port in model.inputs):
        return Traits(_static_outputs(model), _all_static(model))
    plain = _without_identities(model)
    seen: list[Traits] = []
    for batch, size in _SAMPLES:
        clone = plain.clone()
        try:
            clone.reshape({index: _sample(port, batch, size) for index, port in enumerate(clone.inputs)})
        except Exception:  # not every sample suits every model
            continue
        seen.append(Traits(_static_outputs(clone), _all_static(clone)))
        if len(seen) == 2:
            bindable = tuple(map(all, zip(seen[0].bindable, seen[1].bindable)))
            return Traits(bindable, seen[0].steady and seen[1].steady)
    return Traits(_static_outputs(model), steady=False)


def _without_identities(model: Any) -> Any:
    """A copy without operations that do nothing but hide the values of shapes from shape inference."""
    from openvino.utils import replace_output_update_name

    plain = model.clone()
    for op in plain.get_ops():
        if op.get_type_name() == "Identity":
            replace_output_update_name(op.output(0), op.input(0).get_source_output())
    return plain


def _static_outputs(model: Any) -> tuple[bool, ...]:
    return tuple(port.get_partial_shape().is_static for port in model.outputs)


def _all_static(model: Any) -> bool:
    return all(out.get_partial_shape().is_static for op in model.get_ops() for out in op.outputs())


def _sample(port: Any, batch: int, size: int) -> Any:
    import openvino

    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return shape
    dims = []
    for index, dim in enumerate(shape):
        low, high = dim.get_min_length(), dim.get_max_length()
        wanted = batch if index == 0 and len(shape) > 1 else size
        dims.append(max(low, min(wanted, high) if high > 0 else wanted))
    return openvino.PartialShape(dims)
