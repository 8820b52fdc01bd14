"""Graphs that functions call, from the point to the model file (runtime-semantics.md sections 18 to 20)."""

from __future__ import annotations

import pytest

from dflow_core.compiler import FlowModelBuilder, check_graph
from dflow_core.errors import GraphError, UsageError
from dflow_core.graph import (
    FlowData,
    FlowGraph,
    FlowGraphProcessPoint,
    FlowNode,
    Framework,
    FuncProcessPoint,
    GraphProcessPoint,
    ModelProcessPoint,
    ProcessPoint,
    deserialize_graph,
    serialize_graph,
)
from dflow_core.model import (
    InvokedEndpoints,
    ModelEndpoints,
    called_by,
    called_part,
    own_part,
    read_om,
    write_om,
)


def model_point(text: bytes = b"ok") -> GraphProcessPoint:
    return GraphProcessPoint(Framework.ONNX, text)


def calling(func, calls: dict[str, ProcessPoint | FlowGraph], name: str = "f") -> FlowNode:
    node: FlowNode = func(name)
    assert isinstance(node.point, FuncProcessPoint)
    for key, point in calls.items():
        node.point.add_invoked_closure(key, point)
    return node


def graph_of(node: FlowNode, name: str = "g") -> FlowGraph:
    return FlowGraph([node(FlowData("x"))], name=name)


def inner(func, name: str = "inner") -> FlowGraph:
    return FlowGraph([func("b")(func("a")(FlowData("p")))], name=name)


def test_a_called_graph_lies_beside_its_function_and_is_joined_to_nothing_else(registry, func):
    built = FlowModelBuilder(registry).build(graph_of(calling(func, {"k": inner(func)})))
    relation = built.relation
    assert relation.invoked == (InvokedEndpoints("f", "k", ("f/k:p",), ("f/k/b:0",)),)
    assert dict(relation.submodels) == {
        "f": ModelEndpoints("f", ("g:x",), ("f:0",)),
        "f/k/a": ModelEndpoints("f/k/a", ("f/k:p",), ("f/k/a:0",)),
        "f/k/b": ModelEndpoints("f/k/b", ("f/k/a:0",), ("f/k/b:0",)),
    }
    assert not any(end.dummy for end in relation.endpoints)
    assert relation.root == ModelEndpoints("g", ("g:x",), ("f:0",))


def test_a_called_model_is_a_submodel_named_by_its_key(registry, func):
    built = FlowModelBuilder(registry).build(graph_of(calling(func, {"m": model_point()})))
    assert built.relation.invoked == (InvokedEndpoints("f", "m", ("f/m:input0",), ("f/m:0",)),)
    assert built.submodels["f/m"].engine == "CPU"


def test_called_graphs_are_told_apart_from_the_graph_to_any_depth(registry, func):
    deep = graph_of(calling(func, {"m": model_point()}), "deep")
    nested = FlowGraphProcessPoint(deep).fnode(1, 1, "n")
    middle = FlowGraph([nested(FlowData("q"))], name="middle")
    built = FlowModelBuilder(registry).build(graph_of(calling(func, {"k": middle, "m": model_point()})))
    assert list(own_part(built).submodels) == ["f"]
    first, second, third = sorted(built.relation.invoked, key=lambda one: one.name)
    assert [one.name for one in (first, second, third)] == ["f/k", "f/k/n/f/m", "f/m"]
    assert list(called_part(built, first).submodels) == ["f/k/n/f", "f/k/n/f/m"]
    assert list(own_part(called_part(built, first)).submodels) == ["f/k/n/f"]
    assert called_part(built, third).relation.input_names == ("input0",)
    assert {name: one.name for name, one in called_by(built.relation).items()} == {
        "f/k/n/f": "f/k", "f/k/n/f/m": "f/k/n/f/m", "f/m": "f/m",
    }


def test_a_graph_that_calls_survives_its_file_and_can_be_called_or_nested_itself(registry, func, tmp_path):
    built = FlowModelBuilder(registry).build(graph_of(calling(func, {"k": inner(func), "m": model_point()})))
    write_om(built, tmp_path / "g.om")
    assert read_om(tmp_path / "g.om").relation == built.relation
    point = ModelProcessPoint(tmp_path / "g.om")
    outer = FlowModelBuilder(registry).build(graph_of(calling(func, {"o": point}, "top"), "outer"))
    assert [one.name for one in outer.relation.invoked] == ["top/o", "top/o/f/k", "top/o/f/m"]
    nested = FlowModelBuilder(registry).build(graph_of(point.fnode(1, 1, "n"), "outer"))
    assert nested.relation.invoked == (
        InvokedEndpoints("n/f", "k", ("n/f/k:p",), ("n/f/k/b:0",)),
        InvokedEndpoints("n/f", "m", ("n/f/m:input0",), ("n/f/m:0",)),
    )


def test_a_graph_that_calls_survives_bytes(func):
    graph = graph_of(calling(func, {"k": inner(func), "m": model_point()}))
    again = deserialize_graph(serialize_graph(graph, {}), {})
    assert serialize_graph(again, {}) == serialize_graph(graph, {})
    assert list(again.nodes[0].point.invoked) == ["k", "m"]


def test_what_a_pruned_function_calls_is_pruned_with_it(registry, func):
    p = FlowData("p")
    both = FlowGraph([func("keep")(p), calling(func, {"k": inner(func)})(p)], name="both")
    first, _ = FlowGraphProcessPoint(both).fnode(1, 2, "n")(FlowData("x"))
    built = FlowModelBuilder(registry).build(FlowGraph([first]))
    assert list(built.submodels) == ["n/keep"]
    assert built.relation.invoked == ()


@pytest.mark.parametrize(
    ("point", "kind", "text"),
    [
        (model_point(b"missing"), "model", "there is no such file"),
        (graph_of(FlowNode(1, 1, "open")), "no-point", "expected one process point"),
    ],
)
def test_faults_of_what_is_called_name_function_and_key(registry, func, point, kind, text):
    (fault,) = check_graph(graph_of(calling(func, {"k": point})), registry)
    assert (fault.kind, fault.node.partition("/open")[0]) == (kind, "f/k")
    assert text in fault.message


def test_called_graphs_count_as_levels_of_nesting(registry, func):
    graph = inner(func)
    for level in range(16):
        graph = graph_of(calling(func, {"k": graph}, f"f{level}"), f"g{level}")
    (fault,) = graph.faults()
    assert fault.kind == "nesting"


@pytest.mark.parametrize(
    ("name", "point", "text"),
    [
        ("", model_point(), "a name of printable characters"),
        ("a/b", model_point(), "a name of printable characters"),
        ("taken", model_point(), "has an invoked graph called 'taken' already"),
        ("k", FuncProcessPoint(package=b"x"), "expected a GraphProcessPoint"),
    ],
)
def test_what_cannot_be_called_is_refused_at_once(name, point, text):
    caller = FuncProcessPoint(package=b"x")
    caller.add_invoked_closure("taken", model_point())
    with pytest.raises(UsageError, match=text):
        caller.add_invoked_closure(name, point)


def test_two_names_that_become_one_when_laid_flat_are_a_fault(registry, func):
    nodes = [calling(func, {"k": model_point()}, "f"), func("f/k")]
    x = FlowData("x")
    with pytest.raises(GraphError, match="have one name"):
        FlowModelBuilder(registry).build(FlowGraph([node(x) for node in nodes]))
