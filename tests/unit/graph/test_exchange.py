"""Paths of nodes in graphs inside graphs, and process points exchanged there."""

from __future__ import annotations

import pytest

from dflow_core.errors import UsageError
from dflow_core.graph import (
    FlowData,
    FlowGraph,
    FlowGraphProcessPoint,
    FlowNode,
    Framework,
    FuncProcessPoint,
    GraphProcessPoint,
    find_place,
    name_scope,
)


def func(name: str = "work") -> FuncProcessPoint:
    return FuncProcessPoint(name=name)


def model(name: str) -> GraphProcessPoint:
    return GraphProcessPoint(Framework.ONNX, f"{name}.onnx")


def graph_of(*nodes: FlowNode, name: str = "g") -> FlowGraph:
    """The nodes in a row."""
    end = FlowData("x")
    for node in nodes:
        end = node(end)
    return FlowGraph([end], name=name)


def nested(graph: FlowGraph, name: str) -> FlowNode:
    return FlowGraphProcessPoint(graph).fnode(1, 1, name)


def calling(name: str, **called: object) -> FlowNode:
    point = func()
    for key, what in called.items():
        point.add_invoked_closure(key, what)
    return point.fnode(1, 1, name)


@pytest.fixture
def shared() -> FlowGraph:
    """A graph that is used in several places."""
    return graph_of(func().fnode(1, 1, "clean"), func().fnode(1, 1, "scale"), name="pre")


@pytest.fixture
def outer(shared) -> FlowGraph:
    """`left` and `right` are the same graph; `ask` calls it too, and a model; `deep/middle` holds it as `pre`."""
    middle = graph_of(nested(shared, "pre"), name="middle")
    with name_scope("ask"):
        beside = func().fnode(1, 1, "beside")  # called `ask/beside`, and no part of `ask`
    return graph_of(
        nested(shared, "left"), nested(shared, "right"), calling("ask", pre=shared, net=model("a")), beside,
        nested(graph_of(nested(middle, "middle"), name="deep"), "deep"), func().fnode(1, 1, "last"),
    )


ALL = [
    "left/clean", "left/scale", "right/clean", "right/scale", "ask", "ask/pre/clean", "ask/pre/scale", "ask/net",
    "ask/beside", "deep/middle/pre/clean", "deep/middle/pre/scale", "last", "last__BuiltIn_CountBatch_0",
    "left/scale__BuiltIn_TimeBatch_0",
]
CLEAN = ["left/clean", "right/clean", "ask/pre/clean", "deep/middle/pre/clean"]


@pytest.mark.parametrize(("path", "names"), [
    ("last", ["last"]),
    ("ask/beside", ["ask/beside"]),
    ("ask", ["ask", "ask/pre/clean", "ask/pre/scale", "ask/net"]),
    ("ask/net", ["ask/net"]),
    ("ask/pre", ["ask/pre/clean", "ask/pre/scale"]),
    ("left", ["left/clean", "left/scale", "left/scale__BuiltIn_TimeBatch_0"]),
    ("deep", ["deep/middle/pre/clean", "deep/middle/pre/scale"]),
    ("deep/middle/pre", ["deep/middle/pre/clean", "deep/middle/pre/scale"]),
    ("right/clean", CLEAN),
    ("ask/pre/clean", CLEAN),
])
def test_a_path_names_what_was_compiled_of_it_wherever_it_is_used(outer, path, names) -> None:
    place = find_place(outer, path)
    assert path in place.paths and place.names_in(ALL) == names


def test_a_node_itself_is_found_at_all_its_paths(outer, shared) -> None:
    assert find_place(outer, shared.nodes[0]).paths == tuple(CLEAN)


@pytest.mark.parametrize(("path", "hint"), [
    ("lats", "did you mean 'last'?"),
    ("left/claen", "did you mean 'left/clean' or"),
    ("clean", "did you mean 'left/clean' or"),
    ("middle", "did you mean 'deep/middle'?"),
    ("ask/ner", "did you mean 'ask/net' or"),
    ("", "known: "),
    ("zzz", "known: ask, ask/beside, "),
])
def test_a_path_that_leads_nowhere_is_refused_with_the_nearest_ones(outer, path, hint) -> None:
    with pytest.raises(UsageError, match=f"there is no node '{path}' in graph 'g'") as caught:
        find_place(outer, path)
    assert hint in str(caught.value)


def test_a_node_of_another_graph_is_refused(outer) -> None:
    with pytest.raises(UsageError, match="there is no node 'other'"):
        find_place(outer, func().fnode(1, 1, "other"))


@pytest.mark.parametrize("path", ["last", "left/clean", "deep/middle/pre/scale", "ask/net", "ask/pre", "deep"])
def test_what_is_exchanged_stands_at_every_path_of_it_and_can_be_put_back(outer, path) -> None:
    place = find_place(outer, path)
    new = FlowGraphProcessPoint(graph_of(func().fnode(1, 1, "only"))) if place.key == "pre" else model("new")
    old = place.exchange(new)
    assert old is not new
    again = find_place(outer, path)
    assert again.paths == place.paths and again.exchange(old) is new
    assert find_place(outer, path).inside == place.inside


def test_ports_and_batching_of_a_node_stay_with_another_point() -> None:
    node, old, new = FlowNode(2, 1, "n"), func(), func("new")
    node.add_process_point(old)
    node.map_input(0, old, 1)
    node.map_input(1, old, 0)
    x = FlowData("x")
    find_place(FlowGraph([node(x, x)]), "n").exchange(new)
    assert node.point is new and node.point_inputs() == (1, 0) and {m.point for m in node.input_maps} == {new}


def test_a_function_is_no_graph_that_another_can_call(outer) -> None:
    with pytest.raises(UsageError, match="expected a GraphProcessPoint, FlowGraphProcessPoint or ModelProcessPoint"):
        find_place(outer, "ask/net").exchange(func())
    assert isinstance(outer.nodes[2].point.invoked["net"], GraphProcessPoint)


def test_graphs_may_be_nested_as_deep_as_they_can_be_compiled() -> None:
    graph = graph_of(func().fnode(1, 1, "leaf"))
    for level in range(15):
        graph = graph_of(nested(graph, f"n{level}"))
    path = "/".join([*(f"n{level}" for level in range(14, -1, -1)), "leaf"])
    assert find_place(graph, path).names_in([path, "other"]) == [path]
