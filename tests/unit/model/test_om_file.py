from __future__ import annotations

import dataclasses
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflow_core.errors import ModelFormatError
from dflow_core.model import FlowModel, ModelEndpoints, ModelRelation, UdfModel
from dflow_core.model.frame import BytesSource, Frame, frame_chunks
from dflow_core.model.om_file import (
    ENTRY_SIZE,
    HEADER_SIZE,
    Partition,
    PartitionType,
    inspect_om,
    om_chunks,
    pack_table,
    read_om,
    read_table,
    write_om,
)
from dflow_core.model.serde import serialize_metadata, serialize_submodel

GIB = 1 << 30


def to_bytes(model: FlowModel) -> bytes:
    return b"".join(om_chunks(model))


def small() -> FlowModel:
    relation = ModelRelation((), {"m": ModelEndpoints("m", (), ())}, ModelEndpoints("g", (), ()))
    return FlowModel("g", {"m": UdfModel(name="m", engine="UDF", package=b"code")}, relation, b"graph")


SMALL = to_bytes(small())


def assembled(parts: list[tuple[int, Frame]]) -> bytes:
    """A file with right checksums, whatever its partitions hold."""
    contents = [b"".join(frame_chunks(frame)) for _, frame in parts]
    offset, partitions = HEADER_SIZE + ENTRY_SIZE * len(parts), []
    for (kind, _), content in zip(parts, contents):
        partitions.append(Partition(kind, offset, len(content), hashlib.sha256(content).digest()))
        offset += len(content)
    return pack_table(partitions, offset) + b"".join(contents)


def test_a_compiled_graph_survives_the_file(flow_model, tmp_path: Path):
    """BC-084: whatever the path looks like."""
    path = tmp_path / "a b" / "模型 é'\"$x.om"
    path.parent.mkdir()
    assert write_om(flow_model, path) == path.stat().st_size
    for source in (path, str(path), path.read_bytes(), memoryview(path.read_bytes())):
        loaded = read_om(source)
        assert loaded == flow_model
        assert list(loaded.submodels) == list(flow_model.submodels)
    assert os.listdir(path.parent) == [path.name]


def test_equal_graphs_give_equal_files(flow_model):
    assert to_bytes(flow_model) == to_bytes(dataclasses.replace(flow_model))


def test_many_submodels_load(flow_model):
    submodels = {f"m{i}": UdfModel(name=f"m{i}", engine="UDF", package=bytes([i])) for i in range(50)}
    model = dataclasses.replace(flow_model, submodels=submodels)
    assert read_om(to_bytes(model)) == model


def test_a_graph_without_submodels_loads(flow_model):
    model = dataclasses.replace(flow_model, submodels={})
    assert read_om(to_bytes(model)) == model


def test_inspection_reads_no_submodel(flow_model):
    data = bytearray(to_bytes(flow_model))
    info = inspect_om(data)
    assert [p.type.name for p in info.partitions] == ["GRAPH", "METADATA", "SUBMODEL", "SUBMODEL", "SUBMODEL"]
    assert [(s.name, s.type, s.engine) for s in info.submodels][1] == ("detect", "graph", "CPU")
    assert info.model == dataclasses.replace(flow_model, submodels={})
    assert info.size == len(data)
    data[info.submodels[0].partition.offset :] = bytes(len(data) - info.submodels[0].partition.offset)
    assert inspect_om(data).model == info.model


def test_every_truncation_is_refused_and_says_where():
    for length in range(len(SMALL)):
        with pytest.raises(ModelFormatError) as caught:
            read_om(SMALL[:length])
        assert caught.value.offset is not None and caught.value.offset <= len(SMALL)


def test_every_single_changed_bit_is_noticed():
    for at in range(len(SMALL)):
        for bit in (0, 3, 7):
            broken = bytearray(SMALL)
            broken[at] ^= 1 << bit
            with pytest.raises(ModelFormatError) as caught:
                read_om(broken)
            assert caught.value.offset is not None


@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(1, 255)), min_size=1, max_size=8))
def test_several_changed_bytes_are_noticed(changes):
    broken = bytearray(SMALL)
    for at, value in changes:
        broken[at] = (broken[at] + value) % 256
    if broken != SMALL:
        with pytest.raises(ModelFormatError):
            read_om(broken)


@given(st.integers(0, len(SMALL)), st.integers(0, len(SMALL)), st.binary(max_size=64))
def test_inserted_removed_and_replaced_stretches_are_noticed(start, end, piece):
    broken = SMALL[:start] + piece + SMALL[max(start, end) :]
    if broken != SMALL:
        with pytest.raises(ModelFormatError):
            read_om(broken)


@given(st.binary(max_size=600))
def test_any_bytes_are_refused(data):
    with pytest.raises(ModelFormatError):
        read_om(data)


@settings(max_examples=150)
@given(st.data())
def test_content_that_is_broken_below_right_checksums_never_crashes(data):
    """Somebody who writes files can write checksums too."""
    model = small()
    heads = [b"", serialize_metadata(model), serialize_submodel(model.submodels["m"]).head]
    which = data.draw(st.integers(0, 2))
    broken = bytearray(heads[which] or b"x")
    broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    heads[which] = bytes(broken)
    parts = [(0, Frame(heads[0], (b"graph",))), (6, Frame(heads[1])), (7, Frame(heads[2], (b"code",)))]
    try:
        loaded = read_om(assembled(parts))
    except ModelFormatError:
        return
    assert isinstance(loaded, FlowModel)


def metadata_of(model: FlowModel) -> tuple[int, Frame]:
    return 6, Frame(serialize_metadata(model))


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([(6, Frame(b"")), (0, Frame(b""))], "they are metadata, graph"),
        ([(0, Frame(b"", (b"",)))], "they are graph"),
        ([(0, Frame(b"")), metadata_of(small())], r"partition 0 \(root graph\) holds no graph"),
        ([(0, Frame(b"", (b"",))), (6, Frame(b"\xff"))], r"partition 1 \(metadata\): broken metadata"),
        ([(0, Frame(b"", (b"",))), metadata_of(small())], "names 1 submodels, there are 0"),
        ([(0, Frame(b"", (b"",))), metadata_of(small()), (6, Frame(b""))], "graph, metadata, metadata"),
        ([(0, Frame(b"", (b"",))), metadata_of(small()), (7, Frame(b"", (b"",)))], r"partition 2 \(submodel 'm'\)"),
        ([(5, Frame(b""))], "partition 0 is of unknown type 5"),
        (
            [(0, Frame(b"", (b"",))), metadata_of(small()),
             (7, serialize_submodel(UdfModel(name="other", engine="UDF")))],
            "holds 'other'",
        ),
    ],
)
def test_partitions_that_do_not_belong_together_are_refused(parts, text):
    with pytest.raises(ModelFormatError, match=text):
        read_om(assembled(parts))


def test_an_altered_partition_is_named_with_its_byte(flow_model):
    data = bytearray(to_bytes(flow_model))
    detect = inspect_om(data).submodels[1].partition
    data[detect.end - 200] ^= 1
    with pytest.raises(ModelFormatError, match=r"partition 3 \(submodel 'detect'\) is altered") as caught:
        read_om(data)
    assert caught.value.offset == detect.offset


def test_another_version_is_named(flow_model):
    data = bytearray(to_bytes(flow_model))
    data[8] = 1
    with pytest.raises(ModelFormatError, match="format version 1; this dflow reads version 2"):
        read_om(data)


def test_upstreams_files_are_told_apart():
    with pytest.raises(ModelFormatError, match="begins with b'IMOD"):
        read_om(b"IMOD" + bytes(300))


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ModelFormatError, match=r"no\.om: cannot be opened: No such file"):
        read_om(tmp_path / "no.om")


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.om")
    for path in (tmp_path, tmp_path / "pipe.om"):
        with pytest.raises(ModelFormatError, match="not a regular file"):
            read_om(path)


def test_a_failed_load_leaves_no_descriptor(tmp_path: Path):
    path = tmp_path / "x.om"
    path.write_bytes(SMALL[:-1])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(ModelFormatError, match=r"x\.om"):
            read_om(path)
    assert len(os.listdir("/proc/self/fd")) == before


class Claims:
    """Header and table, and a size that is only claimed."""

    path = "huge.om"

    def __init__(self, table: bytes, size: int) -> None:
        self.table, self.size = table, size

    def read(self, offset: int, size: int) -> bytes:
        return self.table[offset : offset + size]


def test_partitions_beyond_4_gib_have_64_bit_offsets():
    sizes = [64, 128, 5 * GIB, 9 * GIB + 64]
    offset, partitions = HEADER_SIZE + ENTRY_SIZE * 4, []
    for kind, size in zip((0, 6, 7, 7), sizes):
        partitions.append(Partition(PartitionType(kind), offset, size, bytes(32)))
        offset += size
    table = pack_table(partitions, offset)
    assert read_table(Claims(table, offset)) == tuple(partitions)
    assert offset > 14 * GIB
    with pytest.raises(ModelFormatError, match="cut off"):
        read_table(Claims(table, offset - 4 * GIB))


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ((448, 576, 640), "partition 1 should begin at byte 512, the table says 576"),
        ((448, 512, 512), "partition 2 should begin at byte 576, the table says 512"),
        ((0, 512, 576), "partition 0 should begin at byte 448, the table says 0"),
    ],
)
def test_gaps_and_overlaps_are_refused(offsets, text):
    partitions = [Partition(PartitionType(k), at, 64, bytes(32)) for k, at in zip((0, 6, 7), offsets)]
    with pytest.raises(ModelFormatError, match=text):
        read_table(Claims(pack_table(partitions, 640), 640))


def test_a_table_that_ends_before_the_file_does_is_refused():
    partitions = [Partition(PartitionType(k), at, 64, bytes(32)) for k, at in ((0, 384), (6, 448))]
    with pytest.raises(ModelFormatError, match="the partitions end at byte 512, the file at 600"):
        read_table(Claims(pack_table(partitions, 600), 600))


def test_a_table_of_four_billion_entries_costs_nothing():
    head = bytearray(pack_table([], HEADER_SIZE))
    head[24:28] = b"\xff" * 4
    with pytest.raises(ModelFormatError, match="does not fit"):
        read_table(BytesSource(head))
