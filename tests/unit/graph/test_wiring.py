"""Every wiring mistake is found before anything runs, with node, port, expected and got (BC-093)."""

from __future__ import annotations

import time

from dflow_core.errors import Fault
from dflow_core.graph import (
    CountBatch,
    FlowData,
    FlowGraph,
    FlowGraphProcessPoint,
    FlowNode,
    FlowOutput,
    FuncProcessPoint,
    TimeBatch,
)
from dflow_core.types import FuncSpec
from tests.unit.graph.kit import func, kinds, only_fault


def test_an_open_input_names_node_and_port():
    node = func(2, 1, name="n")
    node.wire([FlowData("x")], [0], [])
    fault = only_fault(FlowGraph(node.outputs))
    assert (fault.kind, fault.node, fault.port) == ("unconnected", "n", "input 1")
    assert fault.message == "expected FlowData or another node's output, got nothing"


def test_a_cycle_made_by_rewiring_is_shown_in_the_direction_of_the_data():
    a, b, c = func(2, 1, name="a"), func(1, 1, name="b"), func(1, 1, name="c")
    x = FlowData("x")
    a(x, c(b(a(x, x))))
    fault = only_fault(FlowGraph(c.outputs))
    assert fault.kind == "cycle"
    assert any(way in fault.message for way in ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"))


def test_a_node_that_feeds_itself_is_a_cycle():
    node = func(2, 1, name="n")
    node(FlowData("x"), FlowOutput(node, 0))
    assert only_fault(FlowGraph(node.outputs)).message == "expected no cycle, got n -> n"


def test_an_output_index_out_of_range_is_found_at_the_graph_and_at_nodes():
    """BC-093: output index out of range, negative index."""
    a, b = func(1, 2, name="a"), func(name="b")
    a(FlowData("x"))
    faults = FlowGraph([FlowOutput(a, -1), b(FlowOutput(a, 2))]).faults()
    assert [(f.kind, f.node, f.port) for f in faults] == [
        ("output-index", "FlowGraph", "output 0"), ("output-index", "b", "input 0"),
    ]
    assert "from 0 to 1, got 2" in faults[1].message
    sink = func(1, 0, name="sink")
    sink(FlowData("x"))
    assert "'sink' has none" in only_fault(FlowGraph([FlowOutput(sink, 0)])).message


def test_a_node_without_or_with_two_process_points_is_a_fault():
    none, two = FlowNode(1, 1, "none"), func(name="two")
    two.add_process_point(FuncProcessPoint(package=b"c"))
    faults = FlowGraph([two(none(FlowData("x")))]).faults()
    assert [(f.kind, f.node) for f in faults] == [("no-point", "none"), ("arity", "two")]


def test_more_or_fewer_ports_than_the_code_has_is_a_fault():
    point = FuncProcessPoint(package=b"c", functions=[FuncSpec("f", (0, 1), (0,))])
    node = point.fnode(1, 2, "n")
    faults = FlowGraph(node(FlowData("x"))).faults()
    assert [f.message for f in faults] == [
        "expected 2 inputs, as its code (f) has, got 1", "expected 1 outputs, as its code (f) has, got 2",
    ]
    assert faults[0].hint == "make the node with input_num=2"


def test_a_port_that_two_functions_own_or_none_is_a_fault():
    point = FuncProcessPoint(package=b"c", functions=[FuncSpec("f", (0, 2), (0,)), FuncSpec("g", (2,), (1,))])
    node = point.fnode(3, 2, "n")
    faults = FlowGraph(node(*[FlowData()] * 3)).faults()
    assert [(f.port, f.message[-5:]) for f in faults] == [("input 1", "got 0"), ("input 2", "got 2")]


def test_mapping_mistakes_are_all_found():
    node, other = func(3, 2, name="n"), FuncProcessPoint("", "other")
    node.map_input(0, node.point, 0)
    node.map_input(0, node.point, 3)
    node.map_input(5, node.point, -1)
    node.map_output(0, other, 0)
    node.map_output(1, node.point, 0)
    messages = [str(f) for f in FlowGraph(node(*[FlowData()] * 3)).faults()]
    for words in (
        "input 0: map_input: expected input 0 of the node once, got it 2 times",
        "map_input: expected one of the point's inputs from 0 to 2, got 3",
        "map_input: expected one of the node's inputs from 0 to 2, got 5",
        "missing [1, 2]",
        "output 0: map_output names FuncProcessPoint('other')",
        "map_output: expected output 0 of the point once, got it 2 times",
    ):
        assert any(words in message for message in messages), (words, messages)


def test_mapping_all_ports_is_no_fault():
    node = func(2, 1)
    node.map_input(0, node.point, 1)
    node.map_input(1, node.point, 0)
    assert FlowGraph([node(FlowData(), FlowData())]).faults() == ()


def test_two_batches_on_one_input_are_a_fault():
    node = func(name="n")
    node.map_input(0, node.point, 0, [CountBatch(2), TimeBatch(1)])
    fault = only_fault(FlowGraph([node(FlowData())]))
    assert (fault.kind, fault.port) == ("batch", "input 0")
    assert "CountBatch(2), TimeBatch(1)" in fault.message


def test_unknown_attributes_and_values_are_faults():
    node = func(name="n")
    node.set_attr("_flow_attr_dept", 3)
    node.set_attr("_flow_attr_depth", "3")
    node.set_attr("_flow_attr_enqueue_policy", "RING")
    node.set_attr("_npu_sched_model", 1)
    faults = FlowGraph([node(FlowData())]).faults()
    assert [f.kind for f in faults] == ["attribute"] * 3
    assert "_flow_attr_depth" in faults[0].hint
    assert "type int, got '3'" in faults[1].message
    assert "FIFO or OVERWRITE" in faults[2].message


def test_all_faults_are_found_at_once_quickly_and_in_order():
    """BC-093: all faults at once, each with node, port, expected/got and a hint."""
    a, b = func(2, 1, name="a"), func(1, 1, name="a")
    a.wire([FlowData("x")], [0], [])
    a.set_attr("typo", 1)
    start = time.perf_counter()
    faults = FlowGraph([b(a.outputs[0]), FlowOutput(b, 4)]).faults()
    assert time.perf_counter() - start < 1
    assert [f.kind for f in faults] == ["duplicate-name", "output-index", "unconnected", "attribute"]
    assert all(f.node and f.message and f.hint for f in faults)


def nested(depth: int) -> FlowGraph:
    graph = FlowGraph([func(name="leaf")(FlowData("x"))], name=f"g{depth}")
    for level in range(depth - 1, 0, -1):
        node = FlowGraphProcessPoint(graph, f"g{level + 1}").fnode(1, 1)
        graph = FlowGraph([node(FlowData("x"))], name=f"g{level}")
    return graph


def test_sixteen_levels_of_graphs_are_allowed_and_seventeen_are_not():
    assert nested(16).faults() == ()
    fault = only_fault(nested(17))
    assert (fault.kind, fault.node) == ("nesting", "/".join(f"g{level}" for level in range(2, 18)))


def test_faults_of_inner_graphs_name_the_way_to_the_node():
    inner = func(2, 1, name="n")
    inner.wire([FlowData("x")], [0], [])
    node = FlowGraphProcessPoint(FlowGraph(inner.outputs, name="inner")).fnode(1, 1, "outer")
    assert only_fault(FlowGraph([node(FlowData("y"))])).node == "outer/n"


def test_a_nested_graph_must_have_the_ports_of_its_node():
    inner = FlowGraph([func(name="n")(FlowData("x"))], name="inner")
    node = FlowGraphProcessPoint(inner).fnode(2, 3, "outer")
    faults = FlowGraph(node(FlowData("a"), FlowData("b"))).faults()
    assert [f.message for f in faults] == [
        "expected 1 inputs, as the graph 'inner' has, got 2", "expected 1 outputs, as the graph 'inner' has, got 3",
    ]


def test_names_that_become_equal_when_graphs_are_made_flat_are_a_fault():
    inner = FlowGraph([func(name="n")(FlowData("x"))], name="inner")
    node = FlowGraphProcessPoint(inner).fnode(1, 1, "outer")
    fault = only_fault(FlowGraph([func(name="outer/n")(node(FlowData("y")))]))
    assert (fault.kind, fault.node) == ("duplicate-name", "outer/n")
    assert "'n' in 'outer'" in fault.message


def test_a_full_name_that_becomes_too_long_is_a_fault():
    inner = FlowGraph([func(name="n" * 100)(FlowData("x"))], name="inner")
    node = FlowGraphProcessPoint(inner).fnode(1, 1, "o" * 100)
    assert "at most 127 characters, got 201" in only_fault(FlowGraph([node(FlowData("y"))])).message


def test_one_graph_used_twice_gives_its_faults_under_both_names():
    bad = func(name="n")
    bad.set_attr("typo", 1)
    inner = FlowGraph([bad(FlowData("x"))], name="inner")
    nodes = [FlowGraphProcessPoint(inner).fnode(1, 1, name) for name in "ab"]
    faults: tuple[Fault, ...] = FlowGraph([node(FlowData("y")) for node in nodes]).faults()
    assert {f.node for f in faults if f.kind == "attribute"} == {"a/n", "b/n"}


def test_faults_do_not_recurse_into_a_graph_that_holds_itself():
    node = FlowNode(1, 1, "n")
    graph = FlowGraph([node(FlowData("x"))], name="g")
    node.add_process_point(FlowGraphProcessPoint(graph))
    assert "nesting" in kinds(graph)


def test_a_join_is_fed_by_balanced_nodes_only_or_by_none():
    x = FlowData("x")
    point = FuncProcessPoint(builtin="f", name="f")
    a, b, join = point.fnode(1, 1, "a"), point.fnode(1, 1, "b"), point.fnode(2, 1, "join")
    output = join(a.set_balance_scatter()(x), b(x))
    assert [(f.kind, f.node, f.port) for f in FlowGraph([output]).faults() if f.kind == "balance"] == [
        ("balance", "join", "input 1")
    ]
    b.set_balance_gather()
    assert not [f for f in FlowGraph([output]).faults() if f.kind == "balance"]
    b.set_balance_scatter()
    assert [f.message for f in FlowGraph([output]).faults() if f.kind == "balance"] == [
        "it is both set_balance_scatter() and set_balance_gather()"
    ]
