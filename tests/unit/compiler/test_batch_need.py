"""Batches that can never fill are found before anything runs."""

from __future__ import annotations

import pytest

import dflow_core as df
from dflow_core import builtin
from dflow_core.compiler import FlowModelBuilder, check_graph, need_of
from dflow_core.errors import GraphError
from dflow_core.graph import CountBatch, FlowData, FlowGraph, FlowGraphProcessPoint, FlowNode, FuncProcessPoint
from dflow_core.plugins import PluginRegistry, load_plugins


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    return load_plugins(builtin=[builtin])


@df.pyflow
def same(x: object) -> object:
    return x


@df.pyflow
def many(x: object) -> object:
    yield x
    yield x


@df.pyflow
def pair(a: object, b: object) -> object:
    return a


def func(name: str, *batches: CountBatch, call: object = same, inputs: int = 1) -> FlowNode:
    point = FuncProcessPoint(py_func=call)
    node = FlowNode(inputs, 1, name=name)
    node.add_process_point(point)
    for port, batch in enumerate(batches):
        node.map_input(port, point, port, [batch])
    return node


def unbatch(name: str = "apart") -> FlowNode:
    return FuncProcessPoint(builtin="_BuiltIn_Unbatch").fnode(1, 1, name=name)


@pytest.mark.parametrize(
    ("make", "least", "enough"),
    [
        (lambda x: func("a")(x), 0, 0),
        (lambda x: func("a", CountBatch(8))(x), 8, 8),
        (lambda x: func("a", CountBatch(8, timeout=0.1))(x), 0, 0),
        (lambda x: func("b", CountBatch(3))(func("a", CountBatch(4))(x)), 12, 12),
        (lambda x: func("b", CountBatch(3))(unbatch()(func("a", CountBatch(4))(x))), 4, 6),
        (lambda x: func("b", CountBatch(3))(func("a", call=many)(x)), 0, 0),
    ],
)
def test_transactions_that_fill_every_batch(registry, make, least, enough) -> None:
    model = FlowModelBuilder(registry).build(FlowGraph([make(FlowData("x"))]))
    assert (need_of(model).least, need_of(model).enough) == (least, enough)


@pytest.mark.parametrize("session", [{}, {"max_in_flight": "3"}])
def test_fewer_transactions_than_a_batch_needs_are_a_fault_with_the_way_out(registry, session) -> None:
    options = {} if session else {"max_in_flight": "3"}
    graph = FlowGraph([func("a", CountBatch(4))(FlowData("x"))], options)
    (fault,) = check_graph(graph, registry, session)
    assert (fault.kind, fault.node) == ("stall", "a__BuiltIn_CountBatch_0")
    assert "waits for 4 transactions, and max_in_flight=3" in fault.message
    assert "max_in_flight to 4" in fault.hint and "timeout" in fault.hint
    with pytest.raises(GraphError, match="max_in_flight=3"):
        FlowModelBuilder(registry, session).build(graph)


def test_batch_inside_a_graph_counts(registry) -> None:
    inner = FlowGraph([func("deep", CountBatch(6))(FlowData("y"))], name="inner")
    node = FlowGraphProcessPoint(inner).fnode(1, 1, name="outer")
    graph = FlowGraph([node(FlowData("x"))], {"max_in_flight": "5"})
    (fault,) = check_graph(graph, registry)
    assert fault.node.startswith("outer/deep")


@pytest.mark.parametrize("depth", ["1", "64"])
def test_queues_shorter_than_the_batch_of_the_other_branch_are_no_fault(registry, depth) -> None:
    """A join takes what comes on any input and keeps it itself, so the depth of its queues does not matter."""
    x = FlowData("x")
    batched = unbatch()(func("a", CountBatch(32))(x))
    join = func("join", call=pair, inputs=2)(batched, func("b")(x))
    graph = FlowGraph([join], {"queue_depth": depth, "max_in_flight": "32"})
    assert check_graph(graph, registry) == ()
