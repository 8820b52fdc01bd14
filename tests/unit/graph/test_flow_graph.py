"""A graph finds its nodes and inputs by walking back from its outputs."""

from __future__ import annotations

import random

import pytest

from dflow_core.errors import UsageError
from dflow_core.graph import FlowData, FlowGraph, FlowNode
from tests.unit.graph.kit import func, kinds, only_fault


def test_nodes_come_producers_first_whatever_the_order_of_creation():
    x = FlowData("x")
    nodes = [func(name=f"n{i}") for i in range(6)]
    order = [3, 0, 5, 1, 4, 2]
    value = x
    for i in order:
        value = nodes[i](value)
    assert [node.name for node in FlowGraph([value]).nodes] == [f"n{i}" for i in order]


def test_independent_nodes_keep_the_order_they_were_made_in():
    x = FlowData("x")
    outputs = [func(name=name)(x) for name in "cab"]
    random.Random(1).shuffle(outputs)
    assert [node.name for node in FlowGraph(outputs).nodes] == list("cab")


def test_what_no_output_needs_is_not_part_of_the_graph():
    x, y = FlowData("x"), FlowData("y")
    used, unused = func(name="used"), func(name="unused")
    unused(y)
    graph = FlowGraph([used(x)])
    assert [n.name for n in graph.nodes] == ["used"]
    assert graph.input_names == ("x",)


def test_outputs_keep_the_users_order_also_twice_and_inputs_are_sorted():
    node = func(2, 3, name="n")
    a, b, c = node(FlowData("d10"), FlowData("d2"))
    graph = FlowGraph([c, a, a, b])
    assert graph.output_names == ("n:2", "n:0", "n:0", "n:1")
    assert graph.input_names == ("d10", "d2")


def test_one_output_needs_no_list():
    output = func(name="n")(FlowData())
    assert FlowGraph(output).outputs == (output,)


@pytest.mark.parametrize("bad", [[3], [None], [FlowNode(1, 1)]])
def test_outputs_of_another_type_are_refused_with_a_hint(bad):
    with pytest.raises(UsageError, match="what calling a node returned"):
        FlowGraph(bad)


@pytest.mark.parametrize("name", ["", 3, b"x"])
def test_a_graph_needs_a_text_as_name(name):
    with pytest.raises(UsageError, match="name of a graph"):
        FlowGraph([func()(FlowData())], name=name)


def test_a_graph_of_three_thousand_nodes_is_no_problem():
    value = FlowData("x")
    for _ in range(3_000):
        value = func()(value)
    graph = FlowGraph([value])
    assert len(graph.nodes) == 3_000
    assert graph.faults() == ()


def test_a_graph_without_outputs_or_inputs_is_a_fault():
    assert only_fault(FlowGraph([])).kind == "no-outputs"
    assert only_fault(FlowGraph([func(0, 1)()])).kind == "no-inputs"


def test_unknown_options_of_the_graph_are_faults_with_the_nearest_name():
    graph = FlowGraph([func()(FlowData())], {"queue_dept": "3", "queue_depth": "many", "plugins": "x"})
    faults = graph.faults()
    assert [f.kind for f in faults] == ["option"] * 3
    assert "queue_depth" in faults[0].hint


def test_wiring_after_the_graph_was_built_is_noticed():
    x, node = FlowData("x"), func(name="n")
    graph = FlowGraph([node(x)])
    node(func(name="late")(x))
    assert "after the graph had been built" in only_fault(graph).message
    node(FlowData("other"))
    assert kinds(graph) == ["unconnected"]


def test_the_representation_is_short():
    assert repr(FlowGraph([func()(FlowData())], name="g")) == "FlowGraph('g', 1 nodes)"
