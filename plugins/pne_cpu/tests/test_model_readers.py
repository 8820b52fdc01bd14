"""What model files say about themselves, and what damaged ones do to the readers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dflow_core.graph import WireError, onnx_weight_files
from dflow_core.types import DataType
from dflow_pne_cpu.facts import FileFacts
from dflow_pne_cpu.onnx_file import read_onnx
from dflow_pne_cpu.tf_file import read_graph_def

MODELS = Path(__file__).resolve().parents[3] / "tests" / "data" / "models"
SMALL = ["add_float.onnx", "two_outputs.onnx", "nonzero.onnx", "conv_small.pb", "two_outputs.pb", "add.pb"]


def read(name: str, data: bytes) -> FileFacts:
    return read_onnx(data) if name.endswith(".onnx") else read_graph_def(data)


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"),
    [
        ("simple_model.onnx", ["X1 int32[3]", "X2 int32[3]"], ["Y int32[3]"]),
        ("add_dynamic.onnx", ["X1 float[?]", "X2 float[?]"], ["Y float[?]"]),
        ("add_f16.onnx", ["X1 float16[?, 4]", "X2 float16[?, 4]"], ["Y float16[?, 4]"]),
        ("two_outputs.onnx", ["x float[?, 3]"], ["top float[?]", "where int64[?]"]),
        ("nonzero.onnx", ["x float[?]"], ["where int64[1, ?]"]),
        ("conv_medium.onnx", ["image float[?, 3, 128, 128]"], ["probs float[?, 100]"]),
        ("chain_body.onnx", ["image float[1, 3, ?, ?]"], ["features float[1, 32, ?, ?]"]),
        ("add.pb", ["Placeholder float[3]", "Placeholder_1 float[3]"], ["add float[...]"]),
        ("add_int32.pb", ["Placeholder int32[3]", "Placeholder_1 int32[3]"], ["add int32[...]"]),
        ("add_dynamic.pb", ["Placeholder float[?]", "Placeholder_1 float[?]"], ["add float[...]"]),
        ("two_outputs.pb", ["x float[4, ?]"], ["low float[...]", "high float[...]"]),
        ("conv_small.pb", ["image float[?, 32, 32, 3]"], ["probs float[...]"]),
    ],
)
def test_tensors_are_read_in_the_order_of_the_file(
    models: Path, name: str, inputs: list[str], outputs: list[str]
) -> None:
    facts = read(name, (models / name).read_bytes())
    assert [f"{spec.name} {spec}" for spec in facts.inputs] == inputs
    assert [f"{spec.name} {spec}" for spec in facts.outputs] == outputs


def test_weights_listed_among_the_inputs_are_no_inputs(make_onnx: Callable[..., bytes]) -> None:
    weight = numpy_helper.from_array(np.ones(3, np.float32), "w")
    data = make_onnx([("Add", "x w", "y")], [("x", "FLOAT", [3]), ("w", "FLOAT", [3])], [("y", "FLOAT", [3])], [weight])
    assert [spec.name for spec in read_onnx(data).inputs] == ["x"]


def test_unknown_rank_and_scalars_are_told_apart(make_onnx: Callable[..., bytes]) -> None:
    data = make_onnx([("Add", "x s", "y")], [("x", "FLOAT", None), ("s", "FLOAT", [])], [("y", "FLOAT", None)])
    facts = read_onnx(data)
    assert [spec.shape for spec in facts.inputs] == [None, ()]


def test_what_is_no_tensor_is_told(make_onnx: Callable[..., bytes]) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [None])
    graph = helper.make_graph([helper.make_node("SequenceConstruct", ["x"], ["s"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.COMPLEX64, [1])], [sequence])
    facts = read_onnx(helper.make_model(graph).SerializeToString())
    assert facts.unsupported == {
        "x": "has element type 14, which dflow cannot send", "s": "is a sequence, not a tensor",
    }


def test_every_onnx_dtype_that_dflow_knows_is_read(make_onnx: Callable[..., bytes]) -> None:
    names = ["FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL", "FLOAT16", "DOUBLE",
             "UINT32", "UINT64", "BFLOAT16"]
    for name in names:
        facts = read_onnx(make_onnx([("Identity", "x", "y")], [("x", name, [1])], [("y", name, [1])]))
        assert facts.inputs[0].dtype is not DataType.UNDEFINED
        assert not facts.unsupported


def test_ports_of_a_graph_node_are_known_where_the_file_tells(models: Path) -> None:
    facts = read_graph_def((models / "two_outputs.pb").read_bytes())
    assert facts.tensors["split"] == 2
    assert facts.tensors["low"] == 0


def test_all_ports_of_an_end_node_are_outputs() -> None:
    def part(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    def attribute(name: str, value: bytes) -> bytes:
        return part(5, part(1, name.encode()) + part(2, value))

    placeholder = part(1, b"x") + part(2, b"Placeholder") + attribute("dtype", b"\x30\x01")
    split = part(1, b"s") + part(2, b"Split") + part(3, b"x") + attribute("num_split", b"\x18\x03")
    facts = read_graph_def(part(1, placeholder) + part(1, split))
    assert [spec.name for spec in facts.outputs] == ["s", "s:1", "s:2"]
    assert facts.inputs[0].dtype is DataType.FLOAT
    assert facts.inputs[0].shape is None


def test_a_saved_model_is_told_from_a_frozen_graph() -> None:
    with pytest.raises(WireError, match="SavedModel"):
        read_graph_def(b"\x08\x01\x12\x00")


def test_a_file_without_external_weights_names_none(models: Path) -> None:
    assert onnx_weight_files((models / "conv_medium.onnx").read_bytes()) == ()


def test_external_weights_are_found_also_in_branches_and_attributes() -> None:
    def external(name: str, file: str) -> TensorProto:
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=file)
        tensor.external_data.add(key="offset", value="0")
        return tensor

    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    constant = helper.make_node("Constant", [], ["a"], value=external("a", "attribute.bin"))
    branch = helper.make_graph([constant], "b", [], [helper.make_tensor_value_info("a", TensorProto.FLOAT, [1])],
                               [external("w", "branch.bin")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("c", TensorProto.BOOL, [])], [value],
                              [external("v", "dir/weights.bin"), external("u", "dir/weights.bin")])
    found = onnx_weight_files(helper.make_model(graph).SerializeToString())
    assert found == ("attribute.bin", "branch.bin", "dir/weights.bin")


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(SMALL), cut=st.floats(0, 0.999))
def test_a_truncated_file_is_refused_or_read(name: str, cut: float) -> None:
    data = (MODELS / name).read_bytes()
    try:
        read(name, data[: int(len(data) * cut)])
    except WireError as error:
        assert 0 <= error.offset <= len(data)


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(SMALL), changes=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=8))
def test_an_altered_file_is_refused_or_read(name: str, changes: list[tuple[float, int]]) -> None:
    data = bytearray((MODELS / name).read_bytes())
    for place, value in changes:
        data[int(place * len(data))] = value
    for reader in (read_onnx, read_graph_def, onnx_weight_files):
        with contextlib.suppress(WireError):
            reader(bytes(data))


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=400))
def test_garbage_is_refused_or_read(data: bytes) -> None:
    for reader in (read_onnx, read_graph_def, onnx_weight_files):
        with contextlib.suppress(WireError):
            reader(data)
