"""Shapes that a model is compiled for: fixed, free within ranges, or a list of gears."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dflow_acl_emulator.faults import AtcError
from dflow_acl_emulator.options import AtcOptions

Dim: TypeAlias = "tuple[int, int]"
"""Smallest and largest size; the largest -1 where it is open."""
Dims: TypeAlias = "tuple[int, ...]"

_MOST_GEARS = 100
_RANGE = re.compile(r"^(\d+)~(\d+|-1)$")


@dataclass(frozen=True)
class GearPlan:
    """One combination of sizes.

    Args:
        values: As the user gave them.
        inputs: Shapes of all inputs.
    """

    values: Dims
    inputs: tuple[Dims, ...]


def parse_shape(text: str) -> dict[str, tuple[Dim, ...]]:
    """Shapes by input name, from `a:1,3,224;b:-1,1~8`; the name is "" where there is only one and it was left out."""
    found: dict[str, tuple[Dim, ...]] = {}
    for part in filter(None, text.split(";")):
        name, colon, sizes = part.rpartition(":")
        if not colon and len(text.split(";")) > 1:
            raise AtcError("E10002", f"--input_shape: {part!r} is not `name:d0,d1,...`")
        found[name] = tuple(_dim(size, part) for size in sizes.replace("[", "").replace("]", "").split(","))
    return found


def _dim(text: str, part: str) -> Dim:
    ranged = _RANGE.match(text.strip())
    if ranged:
        low, high = int(ranged[1]), int(ranged[2])
        if high != -1 and low > high:
            raise AtcError("E10048", f"--input_shape: range {text} of {part!r} is the wrong way round")
        return low, high
    if "~" in text:
        raise AtcError("E10048", f"--input_shape: {text!r} of {part!r} is no range")
    try:
        size = int(text)
    except ValueError:
        raise AtcError("E10002", f"--input_shape: {text!r} of {part!r} is no size") from None
    if size < -1 or size == 0:
        raise AtcError("E10011", f"--input_shape: size {size} of {part!r} must be above 0, or -1")
    return (1, -1) if size == -1 else (size, size)


def resolve(
    asked: Mapping[str, Sequence[Dim]], found: Mapping[str, Sequence[int] | None], option: str
) -> dict[str, tuple[Dim, ...]]:
    """Sizes of every input: as asked, else as the model says.

    Args:
        asked: By name, from the command line.
        found: By name, from the model; None for an unknown rank.
        option: What to call the command line's part in errors.
    """
    if set(asked) == {""} and len(found) == 1:
        asked = {next(iter(found)): asked[""]}
    for name, dims in asked.items():
        if name not in found:
            raise AtcError("E10016", f"--{option}: the model has no input {name!r}; it has {', '.join(found)}")
        own = found[name]
        if own is not None and len(own) != len(dims):
            raise AtcError("E10049", f"--{option}: {name!r} has {len(own)} dimensions, {len(dims)} are given")
    every: dict[str, tuple[Dim, ...]] = {}
    for name, own in found.items():
        if name in asked:
            every[name] = tuple(asked[name])
        elif own is None:
            raise AtcError("E10001", f"the rank of input {name!r} is unknown; give it in --{option}")
        else:
            every[name] = tuple((1, -1) if size < 0 else (size, size) for size in own)
    return every


def is_free(dim: Dim) -> bool:
    """Whether a size can be more than one."""
    return dim[0] != dim[1]


def plan_gears(options: AtcOptions, dims: Mapping[str, Sequence[Dim]], layout: str) -> tuple[str, list[GearPlan]]:
    """The gears that are asked for, and of which kind they are (`batch`, `image`, `dims`; "" for none)."""
    for name, kind in (("dynamic_batch_size", "batch"), ("dynamic_image_size", "image"), ("dynamic_dims", "dims")):
        text = options.text(name)
        if not text:
            continue
        _check_free(name, kind, dims, layout)
        values = _values(name, text, kind, dims)
        return kind, [GearPlan(value, tuple(_filled(kind, value, dims, layout))) for value in values]
    return "", []


def _check_free(option: str, kind: str, dims: Mapping[str, Sequence[Dim]], layout: str) -> None:
    free = [(name, axis) for name, sizes in dims.items() for axis, dim in enumerate(sizes) if is_free(dim)]
    if not free or any(dim[0] != 1 or dim[1] != -1 for sizes in dims.values() for dim in sizes if is_free(dim)):
        raise AtcError("E10040", f"--{option} needs -1 in --input_shape, and no ranges")
    if kind == "batch":
        wrong = [name for name, axis in free if axis != 0]
        if wrong:
            raise AtcError("E10018", f"--{option}: of {wrong[0]!r} another dimension than the first is -1")
    if kind == "image":
        axes = _image_axes(layout)
        wrong = [name for name, axis in free if axis not in axes]
        if wrong:
            raise AtcError("E10019", f"--{option}: of {wrong[0]!r} another dimension than height and width is -1")


def _values(option: str, text: str, kind: str, dims: Mapping[str, Sequence[Dim]]) -> list[Dims]:
    parts = text.split(",") if kind == "batch" else text.split(";")
    try:
        values = [tuple(int(size) for size in part.split(",")) for part in parts if part]
    except ValueError:
        raise AtcError("E10003", f"--{option}={text} holds what is no number") from None
    if len(values) < 2:
        raise AtcError("E10035", f"--{option} has {len(values)} gears; 2 at least")
    if len(values) > _MOST_GEARS:
        raise AtcError("E10036", f"--{option} has {len(values)} gears; {_MOST_GEARS} at most")
    if len({len(value) for value in values}) > 1:
        raise AtcError("E10037", f"--{option}: the gears have different lengths")
    if any(size <= 0 for value in values for size in value):
        raise AtcError("E10038", f"--{option}: a size is not above 0")
    if len(set(values)) != len(values):
        raise AtcError("E10039", f"--{option}: a gear is given twice")
    free = sum(is_free(dim) for sizes in dims.values() for dim in sizes)
    wanted = {"batch": 1, "image": 2}.get(kind, free)
    if len(values[0]) != wanted:
        raise AtcError("E10045", f"--{option}: a gear has {len(values[0])} sizes, {wanted} are needed")
    return values


def _image_axes(layout: str) -> tuple[int, int]:
    return (1, 2) if layout == "NHWC" else (2, 3)


def _filled(kind: str, value: Dims, dims: Mapping[str, Sequence[Dim]], layout: str) -> list[Dims]:
    rest = list(value)
    filled = []
    for sizes in dims.values():
        shape = [dim[0] if not is_free(dim) else -1 for dim in sizes]
        for axis, size in enumerate(shape):
            if size >= 0:
                continue
            if kind == "batch":
                shape[axis] = value[0]
            elif kind == "image":
                shape[axis] = value[_image_axes(layout).index(axis)]
            else:
                shape[axis] = rest.pop(0)
        filled.append(tuple(shape))
    return filled
