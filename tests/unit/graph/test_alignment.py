"""Joins whose inputs can never meet are found before anything runs."""

from __future__ import annotations

from dflow_core.graph import (
    CountBatch,
    FlowData,
    FlowGraph,
    FlowGraphProcessPoint,
    FlowNode,
    FuncProcessPoint,
    TimeBatch,
)
from dflow_core.types import FuncSpec
from tests.unit.graph.kit import func, kinds, only_fault


def gen(inputs: int = 1, outputs: int = 1, name: str = "gen") -> FlowNode:
    return func(inputs, outputs, name, n_mapping=True, generator=True)


def batched(node: FlowNode, *batches) -> FlowNode:
    for port, batch in enumerate(batches):
        node.map_input(port, node.point, port, [batch] if batch else [])
    return node


def test_parts_and_the_whole_cannot_be_joined():
    x = FlowData("x")
    fault = only_fault(FlowGraph([func(2, name="join")(gen()(x), x)]))
    assert (fault.kind, fault.node, fault.port) == ("alignment", "join", "input 1")
    assert "the parts that 'gen' makes" in fault.message
    assert "gather" in fault.hint


def test_two_streams_of_one_generator_can_be_joined_also_after_other_nodes():
    a, b = gen(1, 2)(FlowData("x"))
    assert FlowGraph([func(2)(func()(a), b)]).faults() == ()


def test_streams_of_two_generators_cannot_be_joined():
    x = FlowData("x")
    assert kinds(FlowGraph([func(2)(gen(name="a")(x), gen(name="b")(x))])) == ["alignment"]


def test_gathering_makes_parts_whole_again():
    x = FlowData("x")
    whole = func(1, 1, "gather", gather=True)(gen(name="b")(gen(name="a")(x)))
    assert FlowGraph([func(2)(whole, x)]).faults() == ()


def test_leaving_outputs_out_does_not_hinder_a_join():
    """What a choosing function leaves out travels as a message, so the join ends all the same."""
    x = FlowData("x")
    assert FlowGraph([func(2)(func(1, 1, "choose", n_mapping=True)(x), x)]).faults() == ()


def test_a_batched_input_beside_one_that_is_not_is_a_fault():
    join = batched(func(2, name="join"), CountBatch(3), None)
    fault = only_fault(FlowGraph([join(FlowData("x"), FlowData("y"))]))
    assert "batches by CountBatch(3)" in fault.message


def test_equal_batches_on_all_inputs_are_fine_and_different_ones_are_not():
    x, y = FlowData("x"), FlowData("y")
    assert FlowGraph([batched(func(2), CountBatch(3), CountBatch(3))(x, y)]).faults() == ()
    assert kinds(FlowGraph([batched(func(2), CountBatch(3), CountBatch(4))(x, y)])) == ["alignment"]
    assert kinds(FlowGraph([batched(func(2), CountBatch(3), TimeBatch(1))(x, y)])) == ["alignment"]


def test_what_ready_made_functions_give_may_be_joined_with_anything():
    """Unbatching makes batches single again; the graph cannot know what others do."""
    x = FlowData("x")
    single = FuncProcessPoint(builtin="_BuiltIn_Unbatch").fnode(1, 1)(batched(func(), CountBatch(3))(x))
    assert FlowGraph([func(2)(single, x)]).faults() == ()


def test_functions_of_one_node_are_looked_at_one_by_one():
    specs = [FuncSpec("a", (0,), (0,), n_mapping=True, generator=True), FuncSpec("b", (1, 2), (1,))]
    node = FuncProcessPoint(package=b"c", functions=specs).fnode(3, 2, "n")
    x = FlowData("x")
    parts, whole = node(x, x, x)
    assert FlowGraph([parts, func(2)(whole, x)]).faults() == ()
    fault = only_fault(FlowGraph([func(2, name="join")(parts, whole)]))
    assert "the parts that 'n.a' makes" in str(fault)


def test_grains_are_followed_through_nested_graphs():
    inner = FlowGraph([gen()(FlowData("i"))], name="inner")
    x = FlowData("x")
    parts = FlowGraphProcessPoint(inner).fnode(1, 1)(x)
    fault = only_fault(FlowGraph([func(2, name="join")(parts, x)]))
    assert "'inner/gen'" in fault.message

    i, j = FlowData("i"), FlowData("j")
    joining = FlowGraph([func(2, name="n")(i, j)], name="joining")
    node = FlowGraphProcessPoint(joining).fnode(2, 1)
    assert only_fault(FlowGraph([node(gen()(x), x)])).node == "joining/n"


def test_a_graph_with_cycles_is_not_followed():
    a = func(2, 1, name="a")
    a(FlowData("x"), func(name="b")(a.outputs[0]))
    assert kinds(FlowGraph(a.outputs)) == ["cycle"]


def test_batches_cannot_be_gathered():
    """Found before anything runs, where the executor would only say so for each transaction."""
    node = batched(func(1, 1, "gather", gather=True), CountBatch(3))
    fault = only_fault(FlowGraph([node(gen()(FlowData("x")))]))
    assert (fault.kind, fault.node, fault.port) == ("alignment", "gather", "input 0")
    assert "CountBatch(3)" in fault.message and "Unbatch" in fault.hint
