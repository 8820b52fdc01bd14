"""Which sizes a run has: those of the model, one of its gears, or what the inputs say."""

from __future__ import annotations

from collections.abc import Sequence

from dflow_pne_npu.bindings import ModelInfo

Shape = tuple[int, ...]


def gear_of(info: ModelInfo, shapes: Sequence[Shape]) -> Shape:
    """The gear that inputs of these shapes need.

    Raises:
        ValueError: the model has none; says which it has.
    """
    for gear in info.gears:
        if all(fits(info, gear, index, shape) for index, shape in enumerate(shapes)):
            return gear
    given = ", ".join(f"{one.name} {list(shape)}" for one, shape in zip(info.inputs, shapes))
    raise ValueError(f"{given} fits none of the sizes the model was compiled for: {describe_gears(info)}")


def fits(info: ModelInfo, gear: Shape, index: int, shape: Shape) -> bool:
    """Whether an input of this shape runs in a gear."""
    return shape == gear_shape(info, gear, index)


def gear_shape(info: ModelInfo, gear: Shape, index: int) -> Shape:
    """Shape of an input in a gear."""
    dims = info.inputs[index].dims
    if info.kind == "dims":
        start = sum(len(one.dims) for one in info.inputs[:index])
        return gear[start : start + len(dims)]
    rest = list(gear)
    if info.kind == "batch":
        rest = rest * len(dims)
    return tuple(size if size >= 0 else rest.pop(0) for size in dims)


def describe_gears(info: ModelInfo) -> str:
    """The gears in words."""
    word = {"batch": "batch", "image": "height and width"}.get(info.kind, "dims")
    return f"{word} " + " or ".join(",".join(map(str, gear)) for gear in info.gears)


def misfit(info: ModelInfo, index: int, shape: Shape) -> str:
    """Why a shape is none that a model with free dimensions takes; "" if it is."""
    one = info.inputs[index]
    if one.dims == (-2,):
        return ""
    if len(shape) != len(one.dims):
        return f"it has {len(shape)} dimensions, expected {len(one.dims)}"
    for axis, (size, wanted) in enumerate(zip(shape, one.dims)):
        low, high = one.ranges[axis] if axis < len(one.ranges) and wanted < 0 else (wanted, wanted)
        if wanted >= 0 and size != wanted:
            return f"dimension {axis} is {size}, expected {wanted}"
        if wanted < 0 and (size < max(low, 0) or 0 <= high < size):
            return f"dimension {axis} is {size}, the model was compiled for {low} to {high if high >= 0 else 'any'}"
    return ""
