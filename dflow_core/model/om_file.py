"""The `.om` file: a compiled graph in one file.

    header 256 | partition table, 64 bytes an entry | partitions

Partitions are frames (`frame.py`) and follow each other without a gap: the root graph (type 0), the metadata
(type 6), then one submodel each (type 7), numbered as upstream's are. The header holds the SHA-256 of itself and the
table, the table that of every partition, so no byte of the file can change unnoticed. Format version 1.
`serde.py` is imported where it is needed only: protobuf is slow to import.
"""

from __future__ import annotations

import enum
import hashlib
import os
import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from dflow_core.errors import ModelFormatError
from dflow_core.model.files import write_atomically
from dflow_core.model.flow_model import FlowModel, PneModel
from dflow_core.model.frame import Buffer, BytesSource, Frame, FrameReader, Source, frame_chunks, open_source

FORMAT_VERSION = 2
HEADER_SIZE = 256
ENTRY_SIZE = 64
MAGIC = b"\x89DFOM\r\n\x1a"

_HEAD = struct.Struct("<8sIIQII")
_ENTRY = struct.Struct("<IIQQ32s")
_DIGEST_AT = HEADER_SIZE - 32
_THREADS = 8


class PartitionType(enum.IntEnum):
    """What a partition holds; the numbers are upstream's."""

    GRAPH = 0
    METADATA = 6
    SUBMODEL = 7


@dataclass(frozen=True, slots=True)
class Partition:
    """One entry of the partition table.

    Args:
        type: What it holds.
        offset: Where it begins.
        size: Its bytes.
        digest: SHA-256 of them.
    """

    type: PartitionType
    offset: int
    size: int
    digest: bytes

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.offset + self.size


@dataclass(frozen=True, slots=True)
class OmSubmodel:
    """What a file tells of a submodel without loading it."""

    name: str
    type: str
    engine: str
    partition: Partition


@dataclass(frozen=True, slots=True)
class OmInfo:
    """What a file tells without loading its submodels.

    Args:
        format_version: Version of the file format.
        size: Bytes of the file.
        partitions: The partition table.
        model: The FlowModel without its submodels; its graph is there.
        submodels: One entry each, in order.
    """

    format_version: int
    size: int
    partitions: tuple[Partition, ...]
    model: FlowModel
    submodels: tuple[OmSubmodel, ...]


def om_chunks(model: FlowModel) -> list[Buffer]:
    """The file as buffers to be written one after the other; models' bytes are not copied.

    Raises:
        PackagingError: if a submodel cannot be saved.
    """
    from dflow_core.model.serde import serialize_metadata, serialize_submodel

    frames = [
        (PartitionType.GRAPH, Frame(b"", (model.graph,))),
        (PartitionType.METADATA, Frame(serialize_metadata(model))),
        *((PartitionType.SUBMODEL, serialize_submodel(sub)) for sub in model.submodels.values()),
    ]
    partitions: list[Partition] = []
    contents: list[Buffer] = []
    offset = HEADER_SIZE + ENTRY_SIZE * len(frames)
    for kind, frame in frames:
        chunks = frame_chunks(frame)
        digest = hashlib.sha256()
        for chunk in chunks:
            digest.update(chunk)
        partitions.append(Partition(kind, offset, sum(map(len, chunks)), digest.digest()))
        offset = partitions[-1].end
        contents += chunks
    return [pack_table(partitions, offset), *contents]


def write_om(model: FlowModel, path: str | os.PathLike[str]) -> int:
    """Save a compiled graph; the file is complete or not there.

    Returns:
        Bytes written.

    Raises:
        PackagingError: if a submodel cannot be saved.
        OSError: if the file cannot be written.
    """
    return write_atomically(path, om_chunks(model))


def read_om(source: str | os.PathLike[str] | Buffer) -> FlowModel:
    """Load a compiled graph; submodels are read by several threads at once.

    Args:
        source: Path of the file, or its bytes.

    Raises:
        ModelFormatError: if it is missing, cut off, altered, or of another version; says where.
    """
    from concurrent.futures import ThreadPoolExecutor

    with _opened(source) as opened:
        info = _inspect(opened)
        count = len(info.submodels)
        with ThreadPoolExecutor(min(_THREADS, count) or 1, "dflow-om") as pool:
            loads = [pool.submit(_load_submodel, opened, number + 2, sub) for number, sub in enumerate(info.submodels)]
            models = [load.result() for load in loads]
    return replace(info.model, submodels={model.name: model for model in models})


def inspect_om(source: str | os.PathLike[str] | Buffer) -> OmInfo:
    """The partition table and the metadata; submodels are neither read nor checked.

    Raises:
        ModelFormatError: if what is read is missing, cut off, altered, or of another version; says where.
    """
    with _opened(source) as opened:
        return _inspect(opened)


def pack_table(partitions: Sequence[Partition], file_size: int) -> bytes:
    """Header and partition table."""
    table = b"".join(
        _ENTRY.pack(p.type, 0, p.offset, p.size, p.digest).ljust(ENTRY_SIZE, b"\0") for p in partitions
    )
    head = _HEAD.pack(MAGIC, FORMAT_VERSION, HEADER_SIZE, file_size, len(partitions), ENTRY_SIZE)
    head = head.ljust(_DIGEST_AT, b"\0")
    return head + hashlib.sha256(head + table).digest() + table


def read_table(source: Source) -> tuple[Partition, ...]:
    """The partition table, checked: it is what was written and covers the file without gap or overlap.

    Raises:
        ModelFormatError: if it is not; says at which byte.
    """
    if source.size < HEADER_SIZE:
        raise _broken(source, f"no model file: {source.size} bytes, the header alone has {HEADER_SIZE}", source.size)
    head = source.read(0, HEADER_SIZE)
    magic, version, head_size, file_size, count, entry_size = _HEAD.unpack_from(head)
    if magic != MAGIC:
        raise _broken(source, f"no model file: it begins with {head[:8]!r}, not with {MAGIC!r}", 0)
    if version != FORMAT_VERSION:
        raise _broken(source, f"format version {version}; this dflow reads version {FORMAT_VERSION}", 8)
    table_size = count * ENTRY_SIZE
    if head_size != HEADER_SIZE or entry_size != ENTRY_SIZE:
        raise _broken(source, "altered header: sizes of header or table entries", 12)
    if table_size > source.size - HEADER_SIZE:
        raise _broken(source, f"the table of {count} partitions does not fit into {source.size} bytes", 24)
    table = source.read(HEADER_SIZE, table_size)
    if hashlib.sha256(head[:_DIGEST_AT] + table).digest() != head[_DIGEST_AT:]:
        raise _broken(source, "altered header or partition table: the checksum differs", _DIGEST_AT)
    if file_size != source.size:
        what = "cut off" if file_size > source.size else "too long"
        raise _broken(source, f"the file is {what}: {source.size} bytes instead of {file_size}", source.size)
    return _entries(source, table)


def _entries(source: Source, table: bytes) -> tuple[Partition, ...]:
    partitions: list[Partition] = []
    expected = HEADER_SIZE + len(table)
    for at in range(0, len(table), ENTRY_SIZE):
        number, _, offset, size, digest = _ENTRY.unpack_from(table, at)
        try:
            partition = Partition(PartitionType(number), offset, size, digest)
        except ValueError:
            text = f"partition {len(partitions)} is of unknown type {number}"
            raise _broken(source, text, HEADER_SIZE + at) from None
        if offset != expected:
            text = f"partition {len(partitions)} should begin at byte {expected}, the table says {offset}"
            raise _broken(source, text, HEADER_SIZE + at)
        expected = partition.end
        partitions.append(partition)
    if expected != source.size:
        raise _broken(source, f"the partitions end at byte {expected}, the file at {source.size}", expected)
    kinds = [partition.type for partition in partitions]
    if kinds[:2] != [PartitionType.GRAPH, PartitionType.METADATA] or set(kinds[2:]) - {PartitionType.SUBMODEL}:
        text = "partitions should be the root graph, the metadata, and submodels; they are "
        raise _broken(source, text + ", ".join(kind.name.lower() for kind in kinds), HEADER_SIZE)
    return tuple(partitions)


def _inspect(source: Source) -> OmInfo:
    from dflow_core.model.serde import deserialize_metadata

    partitions = read_table(source)
    graph = _read_partition(source, partitions[0], "partition 0 (root graph)")
    if len(graph.sections) != 1:
        raise _broken(source, "partition 0 (root graph) holds no graph", partitions[0].offset)
    metadata = _read_partition(source, partitions[1], "partition 1 (metadata)")
    try:
        model, summaries = deserialize_metadata(metadata.head)
    except ModelFormatError as cause:
        raise _broken(source, f"partition 1 (metadata): {cause.message}", partitions[1].offset) from cause
    rest = partitions[2:]
    if len(summaries) != len(rest):
        text = f"the metadata names {len(summaries)} submodels, there are {len(rest)} partitions of them"
        raise _broken(source, text, partitions[1].offset)
    submodels = tuple(OmSubmodel(*summary, partition) for summary, partition in zip(summaries, rest))
    return OmInfo(FORMAT_VERSION, source.size, partitions, replace(model, graph=graph.sections[0]), submodels)


def _load_submodel(source: Source, number: int, sub: OmSubmodel) -> PneModel:
    from dflow_core.model.serde import deserialize_submodel

    what = f"partition {number} (submodel {sub.name!r})"
    frame = _read_partition(source, sub.partition, what)
    try:
        model = deserialize_submodel(frame)
    except ModelFormatError as cause:
        raise _broken(source, f"{what}: {cause.message}", sub.partition.offset) from cause
    if (model.name, model.engine) != (sub.name, sub.engine):
        text = f"{what} holds {model.name!r} of engine {model.engine!r} instead of engine {sub.engine!r}"
        raise _broken(source, text, sub.partition.offset)
    return model


def _read_partition(source: Source, partition: Partition, what: str) -> Frame:
    digest = hashlib.sha256()
    frame = FrameReader(source, partition.offset, partition.size, what, digest).read()
    if digest.digest() != partition.digest:
        text = f"{what} is altered: the checksum over its {partition.size} bytes differs"
        raise _broken(source, text, partition.offset)
    return frame


def _opened(source: str | os.PathLike[str] | Buffer) -> AbstractContextManager[Source]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return nullcontext(BytesSource(source))
    return open_source(source, "model file")


def _broken(source: Source, text: str, offset: int) -> ModelFormatError:
    return ModelFormatError(text, path=source.path, offset=offset)
