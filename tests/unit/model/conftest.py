"""A compiled graph with one model of each kind."""

from __future__ import annotations

import pytest

from dflow_core.model import (
    Endpoint,
    FlowModel,
    GraphModel,
    ModelEndpoints,
    ModelRelation,
    SerializedModel,
    UdfModel,
)
from dflow_core.types import DataType, FuncSpec, NodeOptions, TensorSpec

IMAGE = TensorSpec(DataType.FLOAT, (-1, 3, 32, 32), "image:0")


@pytest.fixture
def graph_model() -> GraphModel:
    return GraphModel(
        name="detect", engine="CPU", inputs=(IMAGE,), outputs=(TensorSpec(DataType.BF16, ()),),
        functions=(FuncSpec("", (0,), (0,)),),
        options=NodeOptions(2, 3, "/env ü", 1.5, "stop", 7, "p", "sticky", "degrade", 5.0, 0.0, 2.5, 9, 0.25, True),
        framework="onnx", source=b"model" * 40, side_files={"b.bin": b"", "a/w.bin": b"weights"}, blob=b"\0\1",
        blob_tag="ov", settings={"precision": "f32"}, labels=("front", "outer"), balance="scatter",
    )


@pytest.fixture
def udf_model() -> UdfModel:
    spec = TensorSpec(DataType.UNDEFINED)
    functions = (FuncSpec("a", (1, 0), (0,), True, True, True, True, True), FuncSpec("b", (), ()))
    params = {"text": "x", "no": False, "n": -5, "f": 0.1, "type": DataType.INT8, "list": [1, [True, "a"], 2.0]}
    return UdfModel(
        name="outer/join", engine="UDF", inputs=(spec, spec), outputs=(spec,), functions=functions, package=b"pickle",
        params=params,
    )


@pytest.fixture
def flow_model(graph_model: GraphModel, udf_model: UdfModel) -> FlowModel:
    other = SerializedModel(name="else", engine="X", data=b"anything", settings={"k": "v"})
    sides = {
        "outer/join": ModelEndpoints("outer/join", ("detect:0", "g:x"), ("outer/join:0",)),
        "detect": ModelEndpoints("detect", ("g:x",), ("detect:0",)),
        "else": ModelEndpoints("else", (), ()),
    }
    endpoints = (
        Endpoint("g:x"), Endpoint("detect:0", 4, "max_age", max_age=0.5), Endpoint("outer/join:0", dummy=True)
    )
    root = ModelEndpoints("g", ("g:x",), ("outer/join:0",))
    relation = ModelRelation(endpoints, sides, root, ("x",), ("joined",))
    submodels = {"outer/join": udf_model, "detect": graph_model, "else": other}
    return FlowModel("g", submodels, relation, b"the graph", {"queue_depth": "4"}, {"dflow": "0.1.0"})
