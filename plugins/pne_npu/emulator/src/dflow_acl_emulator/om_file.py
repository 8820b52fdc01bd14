"""The emulator's model file: the header of an OM file, then a description, weights and an OpenVINO graph.

Little endian. After the 256 bytes of the header: a table of partitions (u32 count, 4 bytes of padding, then for each
u32 type, padding, u64 offset, u64 size), then the partitions one behind the other. Types: 0 the description (text, one
fact a line), 1 the weights, 2 the graph (OpenVINO IR, XML). Lines of the description:

    acl-emulator-model 1
    name NAME | soc NAME | work BYTES | weights BYTES | half 0 or 1
    shapes fixed, batch, image, dims or range
    input  TYPE FORMAT DIMS RANGES NAME      types and formats are ACL's numbers; DIMS are `1,-1`, or `-` for a scalar
    output TYPE FORMAT DIMS RANGES NAME      RANGES are `low,high;low,high`, or `-`
    gear   VALUES INPUTS OUTPUTS             shapes of all inputs and outputs, divided by `;`
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

MAGIC = 0x444F4D49
HEADER = 256
VERSION = 0x20000000
MAKER = b"dflow-acl-emulator"


@dataclass(frozen=True)
class TensorLine:
    """An input or an output.

    Args:
        type, format: Numbers of ACL.
        dims: Sizes; -1 where free.
        name: Its name.
        ranges: Smallest and largest size of each dimension; () where there are no ranges.
    """

    type: int
    format: int
    dims: tuple[int, ...]
    name: str
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class GearLine:
    """A gear, with the shapes of all inputs and outputs in it."""

    values: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ModelFacts:
    """Everything the library must be able to say of a model."""

    name: str
    soc: str
    shapes: str
    work: int
    inputs: Sequence[TensorLine]
    outputs: Sequence[TensorLine]
    gears: Sequence[GearLine] = ()
    half: bool = False


def describe(facts: ModelFacts, weights: int) -> str:
    """The text of the description."""
    lines = ["acl-emulator-model 1", f"name {facts.name}", f"soc {facts.soc}", f"shapes {facts.shapes}",
             f"work {facts.work}", f"weights {weights}", f"half {int(facts.half)}"]
    for word, side in (("input", facts.inputs), ("output", facts.outputs)):
        for one in side:
            ranges = ";".join(f"{low},{high}" for low, high in one.ranges) or "-"
            lines.append(f"{word} {one.type} {one.format} {_dims(one.dims)} {ranges} {one.name}")
    lines += [f"gear {_dims(g.values)} {_many(g.inputs)} {_many(g.outputs)}" for g in facts.gears]
    return "\n".join(lines) + "\n"


def write_model(facts: ModelFacts, graph: bytes, weights: bytes) -> bytes:
    """The whole file."""
    parts = [(0, describe(facts, len(weights)).encode()), (1, weights), (2, graph)]
    offset, table = 0, [struct.pack("<II", len(parts), 0)]
    for kind, data in parts:
        table.append(struct.pack("<IIQQ", kind, 0, offset, len(data)))
        offset += len(data)
    payload = b"".join([*table, *(data for _, data in parts)])
    return _header(facts, payload) + payload


def _header(facts: ModelFacts, payload: bytes) -> bytes:
    header = bytearray(HEADER)
    struct.pack_into("<III", header, 0, MAGIC, HEADER, VERSION)
    header[12:44] = hashlib.sha256(payload).digest()
    struct.pack_into("<I", header, 76, len(payload) & 0xFFFFFFFF)
    struct.pack_into("<BBBB", header, 80, 0, 1, 0, 0)
    name = facts.name.encode()[:31]
    header[84 : 84 + len(name)] = name
    struct.pack_into("<I", header, 156, 1)
    header[160 : 160 + len(MAKER)] = MAKER
    struct.pack_into("<Q", header, 184, len(payload))
    header[193] = facts.shapes == "range"
    return bytes(header)


def _dims(dims: Sequence[int]) -> str:
    return ",".join(map(str, dims)) or "-"


def _many(shapes: Sequence[Sequence[int]]) -> str:
    return ";".join(map(_dims, shapes))
