"""Process points: data only, checked when made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dflow_core.errors import OptionError, UsageError
from dflow_core.graph import (
    PACKER_ATTRIBUTE,
    FlowData,
    FlowGraph,
    FlowGraphProcessPoint,
    Framework,
    FuncPackage,
    FuncProcessPoint,
    GraphProcessPoint,
    ModelProcessPoint,
)
from dflow_core.types import DataType, FuncSpec
from tests.unit.graph.kit import func


def test_framework_numbers_are_those_of_the_specification():
    assert [(f.name, f.value) for f in Framework] == [("TENSORFLOW", 1), ("ONNX", 2), ("MINDSPORE", 3)]


def test_a_relative_path_counts_from_here_at_once_and_is_not_opened(tmp_path, monkeypatch):
    """BC-085: found again from another folder."""
    monkeypatch.chdir(tmp_path)
    point = GraphProcessPoint(Framework.ONNX, "models/det.onnx", compile_config_path="c.json")
    monkeypatch.undo()
    assert point.graph_file == str(tmp_path / "models" / "det.onnx")
    assert point.compile_config_path == str(tmp_path / "c.json")


def test_a_link_to_a_model_is_kept_so_that_side_files_lie_beside_it(tmp_path):
    """BC-085: via symlink."""
    link = tmp_path / "link.onnx"
    link.symlink_to("elsewhere/model.onnx")
    assert GraphProcessPoint(Framework.ONNX, link).graph_file == str(link)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_model_can_be_given_as_bytes(kind):
    point = GraphProcessPoint(Framework.TENSORFLOW, kind(b"model"))
    assert (point.graph_file, point.graph_bytes) == ("", b"model")
    assert point.node_name() == "FlowNode"


def test_settings_and_load_params_are_texts():
    point = GraphProcessPoint(Framework.ONNX, "m.onnx", {"input_data_names": "x,y"}, runtime="openvino")
    assert (point.load_params, point.settings) == ({"input_data_names": "x,y"}, {"runtime": "openvino"})
    with pytest.raises(UsageError, match="expected a text"):
        GraphProcessPoint(Framework.ONNX, "m", {"a": 1})
    with pytest.raises(UsageError, match="expected a text"):
        GraphProcessPoint(Framework.ONNX, "m", precision=32)


@pytest.mark.parametrize("arguments", [("onnx", "m.onnx"), (2, "m.onnx"), (Framework.ONNX, 3), (Framework.ONNX, "")])
def test_a_framework_or_path_of_another_type_is_refused(arguments):
    with pytest.raises(UsageError, match="expected"):
        GraphProcessPoint(*arguments)


def test_nodes_are_called_like_the_model_file_unless_the_point_has_a_name():
    assert GraphProcessPoint(Framework.ONNX, Path("/m/det.v2.onnx")).fnode(1, 1).name == "det.v2"
    assert GraphProcessPoint(Framework.ONNX, "/m/det.onnx", name="d").fnode(1, 1).name == "d"
    assert ModelProcessPoint("/m/whole.om").fnode(1, 1).name == "whole"
    assert GraphProcessPoint(Framework.ONNX, "/m/" + "x" * 200).fnode(1, 1).name == "x" * 64


@pytest.mark.parametrize(
    "value",
    ["s", True, -(2**63), 1.5, DataType.BF16, [], ["a"], [True], [1, 2], [[1], [2, 3]], [1.5], [DataType.INT8], (1, 2)],
)
def test_init_params_take_what_can_travel(value):
    point = FuncProcessPoint(package=b"c")
    point.set_init_param("p", value)
    point.set_init_param("p", value)
    assert point.init_params == {"p": list(value) if isinstance(value, tuple) else value}


@pytest.mark.parametrize("value", [None, {"a": 1}, [1, "a"], [[1.5]], [["a"]], 2**63, object(), [None], [[True]]])
def test_init_params_refuse_the_rest(value):
    with pytest.raises(OptionError, match="init parameter 'p'"):
        FuncProcessPoint().set_init_param("p", value)


def test_py_func_asks_the_decorated_object_for_its_package():
    class Decorated:
        pass

    specs = (FuncSpec("f", (0,), (0,)),)
    package = FuncPackage(b"c", specs, 1, 1, "Decorated", {"fingerprint": "1"})
    setattr(Decorated, PACKER_ATTRIBUTE, staticmethod(lambda cls: package))
    point = FuncProcessPoint(py_func=Decorated, attrs={"own": "2"})
    assert (point.package, point.functions, point.name) == (b"c", specs, "Decorated")
    assert point.attrs == {"own": "2", "fingerprint": "1"}
    assert FuncProcessPoint(name="n", py_func=Decorated).name == "n"


@pytest.mark.parametrize("plain", [len, object(), str])
def test_py_func_without_a_decorator_says_which_to_use(plain):
    with pytest.raises(UsageError, match="@df.pyflow"):
        FuncProcessPoint(py_func=plain)


def test_a_graph_can_be_a_point():
    inner = FlowGraph([func()(FlowData())], name="inner")
    point = FlowGraphProcessPoint(inner)
    assert point.nested is point.flow_graph is inner
    assert point.fnode(1, 1).name == "inner"
    with pytest.raises(UsageError, match="FlowGraph"):
        FlowGraphProcessPoint("graph")


def test_captions_say_what_a_point_is():
    inner = FlowGraph([func()(FlowData())])
    points = (
        GraphProcessPoint(Framework.ONNX, "m"), ModelProcessPoint("m.om"), FlowGraphProcessPoint(inner),
        FuncProcessPoint(package=b"c"), FuncProcessPoint(builtin="b"),
    )
    assert [p.caption() for p in points] == ["onnx model", "compiled model", "graph", "function", "b"]
    assert os.path.isabs(points[1].path)
