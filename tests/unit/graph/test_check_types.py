"""Types are compared where both ends are known (BC-093: dtype or shape mismatch, missing file)."""

from __future__ import annotations

import pytest

from dflow_core.errors import ModelFormatError, PluginError
from dflow_core.graph import (
    CountBatch,
    FlowData,
    FlowGraph,
    FlowGraphProcessPoint,
    Framework,
    GraphProcessPoint,
    TimeBatch,
)
from dflow_core.types import DataType, TensorSpec
from tests.unit.graph.kit import IO, describer, func, kinds, only_fault

F32 = DataType.FLOAT
I64 = DataType.INT64


def model(name: str = "m"):
    return GraphProcessPoint(Framework.ONNX, f"/{name}.onnx", name=name)


def spec(*shape: int, dtype: DataType = F32) -> TensorSpec:
    return TensorSpec(dtype, shape)


def pair(out: TensorSpec, into: TensorSpec):
    """Two models in a row, what they are described as, and the graph."""
    a, b = model("a"), model("b")
    known = {a: IO((spec(1),), (out,)), b: IO((into,), (spec(1),))}
    graph = FlowGraph([b.fnode(1, 1)(a.fnode(1, 1)(FlowData("x")))])
    return graph, describer(known)


def test_specs_that_fit_are_no_fault():
    for out, into in ((spec(1, 3), spec(-1, 3)), (spec(-1), spec(4)), (TensorSpec(F32), spec(1, 2))):
        graph, describe = pair(out, into)
        assert graph.faults(describe) == ()


@pytest.mark.parametrize(
    ("out", "into", "kind"),
    [
        (spec(1, 3), spec(1, 4), "shape"), (spec(1, 3), spec(3), "shape"), (spec(3, dtype=I64), spec(3), "dtype"),
        (spec(2, dtype=I64), spec(3), "dtype"),
    ],
)
def test_specs_that_cannot_fit_are_a_fault_with_both_ends(out, into, kind):
    graph, describe = pair(out, into)
    fault = only_fault(graph, describe)
    assert (fault.kind, fault.node, fault.port) == (kind, "b", "input 0")
    assert fault.message == f"expected {into}, got {out} from 'a': {kind} differs"
    assert fault.hint


def test_without_a_description_nothing_is_compared():
    graph, _ = pair(spec(1), spec(2))
    assert graph.faults() == graph.faults(lambda *_: None) == ()


def test_the_schema_of_an_input_is_compared():
    a = model("a")
    graph = FlowGraph([a.fnode(1, 1)(FlowData("x", spec(3, dtype=I64)))])
    assert only_fault(graph, describer({a: IO((spec(3),), (spec(1),))})).kind == "dtype"


def test_an_input_that_two_models_take_differently_is_a_fault():
    a, b = model("a"), model("b")
    x = FlowData("x")
    graph = FlowGraph([a.fnode(1, 1)(x), b.fnode(1, 1)(x)])
    known = {a: IO((spec(3),), (spec(1),)), b: IO((spec(4),), (spec(1),))}
    fault = only_fault(graph, describer(known))
    assert (fault.kind, fault.node) == ("shape", "b")
    assert "which 'a' takes from the same input" in fault.message


def test_mapped_ports_are_compared_as_mapped():
    a = model("a")
    known = {a: IO((spec(1, dtype=I64), spec(2)), (spec(1),))}
    node = a.fnode(2, 1)
    node(FlowData("f", spec(2)), FlowData("i", spec(1, dtype=I64)))
    assert kinds(FlowGraph(node.outputs), describer(known)) == ["dtype", "dtype"]
    node.map_input(0, a, 1)
    node.map_input(1, a, 0)
    assert FlowGraph(node.outputs).faults(describer(known)) == ()


def test_another_number_of_ports_than_the_model_has_is_a_fault():
    a = model("a")
    graph = FlowGraph(a.fnode(2, 2)(FlowData("x"), FlowData("y")))
    faults = graph.faults(describer({a: IO((spec(1),), (spec(1),))}))
    assert [f.kind for f in faults] == ["arity", "arity"]
    assert "expected 1 inputs, as the model has, got 2" in faults[0].message


def test_a_missing_or_broken_model_is_a_fault_and_the_others_are_still_found():
    a, b, c = model("a"), model("b"), model("c")

    def describe(point, inputs, outputs):
        if point is a:
            raise ModelFormatError("no such file", path="/a.onnx")
        if point is b:
            raise PluginError("no engine takes it", hint="install one")
        return IO((spec(1, dtype=I64),), (spec(1),))

    x = FlowData("x", spec(1))
    graph = FlowGraph([p.fnode(1, 1)(x) for p in (a, b, c)])
    faults = graph.faults(describe)
    assert [(f.kind, f.node) for f in faults] == [("model", "a"), ("engine", "b"), ("dtype", "c")]
    assert "/a.onnx: no such file" in faults[0].message
    assert faults[1].hint == "install one"


@pytest.mark.parametrize(
    ("batch", "into", "fits"),
    [
        (CountBatch(4), spec(4, 3), True), (CountBatch(4), spec(3), False), (CountBatch(4), spec(5, 3), False),
        (CountBatch(4, timeout=1), spec(5, 3), True), (CountBatch(4, timeout=1, padding=True), spec(5, 3), False),
        (TimeBatch(1), spec(-1, 3), True), (TimeBatch(1), spec(9, 4), False), (TimeBatch(1, 0), spec(9), True),
    ],
)
def test_batches_change_the_shape_that_arrives(batch, into, fits):
    a = model("a")
    node = a.fnode(1, 1)
    node.map_input(0, a, 0, [batch])
    graph = FlowGraph([node(FlowData("x", spec(3)))])
    assert (kinds(graph, describer({a: IO((into,), (spec(1),))})) == []) is fits


def test_batches_of_unknown_rank_are_not_compared():
    a = model("a")
    node = a.fnode(1, 1)
    node.map_input(0, a, 0, [TimeBatch(1, 5)])
    graph = FlowGraph([node(FlowData("x", TensorSpec(F32)))])
    assert graph.faults(describer({a: IO((spec(3),), (spec(1),))})) == ()


def test_a_batch_dimension_the_tensor_does_not_have_is_a_fault():
    a = model("a")
    node = a.fnode(1, 1)
    node.map_input(0, a, 0, [TimeBatch(1, 2)])
    graph = FlowGraph([node(FlowData("x", spec(3, 4)))])
    fault = only_fault(graph, describer({a: IO((spec(3, 4),), (spec(1),))}))
    assert "batch_dim below the rank 2" in fault.message


def test_types_are_compared_through_nested_graphs():
    a, b = model("a"), model("b")
    known = {a: IO((spec(3),), (spec(5),)), b: IO((spec(6),), (spec(1),))}
    inner = FlowGraph([a.fnode(1, 1)(FlowData("x"))], name="inner")
    node = FlowGraphProcessPoint(inner).fnode(1, 1)
    graph = FlowGraph([b.fnode(1, 1)(node(FlowData("y", spec(4))))])
    faults = graph.faults(describer(known))
    assert [(f.node, f.message) for f in faults] == [
        ("inner", "expected float[3], got float[4] from 'y': shape differs"),
        ("b", "expected float[6], got float[5] from 'inner': shape differs"),
    ]


def test_a_function_in_between_ends_what_is_known():
    a, b = model("a"), model("b")
    known = {a: IO((spec(1),), (spec(5),)), b: IO((spec(6),), (spec(1),))}
    graph = FlowGraph([b.fnode(1, 1)(func()(a.fnode(1, 1)(FlowData("x"))))])
    assert graph.faults(describer(known)) == ()
