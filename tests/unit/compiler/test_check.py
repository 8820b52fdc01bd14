from __future__ import annotations

from collections.abc import Callable

import pytest

from dflow_core.compiler import check_graph
from dflow_core.errors import Fault
from dflow_core.graph import (
    CountBatch,
    FlowData,
    FlowGraph,
    FlowGraphProcessPoint,
    FlowNode,
    Framework,
    FuncProcessPoint,
    GraphProcessPoint,
    TimeBatch,
)


def nested(graph: FlowGraph, name: str = "n") -> FlowGraph:
    return FlowGraph([FlowGraphProcessPoint(graph).fnode(1, 1, name)(FlowData("x"))], name=f"around {name}")


def batched(node: FlowNode, batch: CountBatch | TimeBatch) -> FlowNode:
    node.map_input(0, node.point, 0, [batch])
    return node


def places(faults: tuple[Fault, ...]) -> list[tuple[str, str]]:
    return [(fault.kind, fault.node) for fault in faults]


def test_a_good_graph_has_no_faults_and_nothing_is_compiled(registry, fakes, func, model):
    graph = FlowGraph([func("f")(batched(model("m"), CountBatch(2))(FlowData("x")))])
    assert check_graph(nested(graph), registry) == ()
    assert fakes.compiled == []


def test_a_point_is_looked_at_once(registry, fakes, monkeypatch):
    looked = []
    engine = registry.engine("CPU").engine()
    monkeypatch.setattr(engine, "describe", lambda point: looked.append(point))
    point = GraphProcessPoint(Framework.ONNX, b"ok")
    x = FlowData("x")
    inner = FlowGraph([point.fnode(1, 1, "a")(x), point.fnode(1, 1, "b")(x)])
    node = FlowGraphProcessPoint(inner).fnode(1, 2, "n")
    check_graph(FlowGraph(list(node(FlowData("y")))), registry)
    assert looked == [point]


def test_engines_named_inside_are_the_ones_asked(registry, fakes, model):
    inner = FlowGraph([model("m")(FlowData("x"))], {"engine": "CPU2"})
    check_graph(nested(inner), registry)
    assert fakes.made == ["CPU2"]


def test_faults_inside_name_the_way_to_the_node(registry, fakes, func, model):
    fakes.missing |= {"_BuiltIn_TimeBatch"}
    inner = FlowGraph([batched(func("f"), TimeBatch(-1))(model("m", "missing")(FlowData("x")))])
    found = check_graph(nested(nested(inner, "i"), "o"), fakes.registry())
    assert places(found) == [("model", "o/i/m"), ("plugin", "o/i/f")]
    assert found[1].hint == "did you mean '_BuiltIn_CountBatch'?; pip install dflow-builtin-udf"


@pytest.mark.parametrize(("params", "count"), [({"batch_size": 2}, 0), ({}, 1), ({"batch_size": 2, "time": 1}, 1)])
def test_parameters_of_ready_made_functions_are_checked(registry, params: dict[str, int], count: int):
    point = FuncProcessPoint(builtin="_BuiltIn_CountBatch")
    for name, value in params.items():
        point.set_init_param(name, value)
    found = check_graph(FlowGraph([point.fnode(1, 1, "c")(FlowData("x"))]), registry)
    assert places(found) == [("attribute", "c")] * count


@pytest.mark.parametrize("place", ["session", "graph", "inner"])
def test_an_unknown_option_is_a_fault_beside_the_others(registry, func: Callable[..., FlowNode], place: str):
    bad = {"queue_dept": "1"}
    inner = FlowGraph([func("f", 2)(FlowData("x"), FlowData("x"))], bad if place == "inner" else None)
    graph = nested(inner)
    graph.options.update(bad if place == "graph" else {})
    found = check_graph(graph, registry, bad if place == "session" else None)
    assert found[0].kind == "option" and "did you mean 'queue_depth'" in found[0].hint
    assert len(found) > 1
