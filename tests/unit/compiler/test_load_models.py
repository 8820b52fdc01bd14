from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dflow_core.compiler import FlowModelBuilder, check_graph
from dflow_core.errors import GraphError, ModelFormatError, PluginError
from dflow_core.graph import FlowData, FlowGraph, FlowGraphProcessPoint, ModelProcessPoint
from dflow_core.model import FlowModel, ModelEndpoints, read_om, write_om


@pytest.fixture
def compiled(registry, func, model) -> FlowModel:
    x, y = FlowData("x"), FlowData("y")
    mid = func("f", 2).set_options(instances=2).set_queue(0, depth=4)(model("m")(x), y)
    return FlowModelBuilder(registry).build(FlowGraph([func("last")(mid), mid], name="inner"))


@pytest.fixture
def om(compiled, tmp_path: Path) -> Path:
    path = tmp_path / "a b é'\"$x.om"
    write_om(compiled, path)
    return path


def test_a_model_file_becomes_part_of_a_graph_without_compiling(registry, fakes, func, om, compiled):
    """BC-084: whatever its path looks like."""
    fakes.forget()
    node = ModelProcessPoint(om).fnode(2, 2, "n")
    first, second = node(func("pre", code="other")(FlowData("a")), FlowData("b"))
    graph = FlowGraph([func("post", 2, code="third")(first, second), second], name="g")
    built, report = FlowModelBuilder(registry).build_and_report(graph)
    assert fakes.compiled == ["post", "pre"]
    assert list(built.submodels) == ["pre", "n/m", "n/f", "n/last", "post"]
    assert built.relation.submodels["n/f"] == ModelEndpoints("n/f", ("n/m:0", "g:b"), ("n/f:0",))
    assert built.relation.submodels["n/m"].inputs == ("pre:0",)
    assert built.relation.submodels["post"].inputs == ("n/last:0", "n/f:0")
    assert built.relation.root.outputs == ("post:0", "n/f:0")
    assert built.relation.endpoint("n/f:0").depth == 4
    assert built.submodels["n/f"] == replace(compiled.submodels["f"], name="n/f", labels=("n/f", "n"))
    assert [n.cache for n in report.nodes if n.node.startswith("n/")] == ["loaded"] * 3


def test_it_can_be_saved_and_loaded_again(registry, om, tmp_path: Path):
    node = ModelProcessPoint(om).fnode(2, 2, "n")
    built = FlowModelBuilder(registry).build(FlowGraph(list(node(FlowData("a"), FlowData("b")))))
    write_om(built, tmp_path / "again.om")
    again = FlowGraph(list(ModelProcessPoint(tmp_path / "again.om").fnode(2, 2, "o")(FlowData("a"), FlowData("b"))))
    assert list(FlowModelBuilder(registry).build(again).submodels) == ["o/n/m", "o/n/f", "o/n/last"]


def test_it_can_lie_in_a_nested_graph(registry, om):
    inner = FlowGraph(list(ModelProcessPoint(om).fnode(2, 2, "n")(FlowData("a"), FlowData("b"))), name="inner")
    outer = FlowGraphProcessPoint(inner).fnode(2, 2, "o")(FlowData("a"), FlowData("b"))
    assert list(FlowModelBuilder(registry).build(FlowGraph(list(outer))).submodels) == ["o/n/m", "o/n/f", "o/n/last"]


def test_options_reach_a_file_with_one_model(registry, func, tmp_path: Path):
    write_om(FlowModelBuilder(registry).build(FlowGraph([func("f")(FlowData("x"))])), tmp_path / "one.om")
    node = ModelProcessPoint(tmp_path / "one.om").fnode(1, 1, "n").set_options(instances=3)
    built = FlowModelBuilder(registry).build(FlowGraph([node(FlowData("x"))]))
    assert built.submodels["n/f"].options.instances == 3


def test_options_on_a_file_with_several_models_are_refused(registry, om):
    node = ModelProcessPoint(om).fnode(2, 2, "n").set_options(instances=3)
    with pytest.raises(GraphError, match="have no effect"):
        FlowModelBuilder(registry).build(FlowGraph(list(node(FlowData("a"), FlowData("b")))))


def test_a_broken_file_is_a_fault_of_the_graph(registry, om):
    om.write_bytes(om.read_bytes()[:300])
    graph = FlowGraph([ModelProcessPoint(om).fnode(2, 2, "n")(FlowData("a"), FlowData("b"))[0]])
    (fault,) = check_graph(graph, registry)
    assert (fault.kind, fault.node) == ("model", "n") and "at byte" in fault.message


def test_a_file_broken_in_its_models_names_node_and_partition(registry, om):
    data = bytearray(om.read_bytes())
    data[-1] ^= 1
    om.write_bytes(data)
    graph = FlowGraph([ModelProcessPoint(om).fnode(2, 2, "n")(FlowData("a"), FlowData("b"))[0]])
    with pytest.raises(ModelFormatError, match=r"node 'n': .*partition 4 \(submodel 'last'\) is altered"):
        FlowModelBuilder(registry).build(graph)


def test_wrong_ports_are_a_fault(registry, om):
    graph = FlowGraph([ModelProcessPoint(om).fnode(1, 1, "n")(FlowData("a"))])
    with pytest.raises(GraphError, match="expected 2 inputs, as the model has, got 1"):
        FlowModelBuilder(registry).build(graph)


def test_a_file_that_does_not_hold_together_is_refused(registry, compiled, om):
    write_om(replace(compiled, submodels={"f": compiled.submodels["f"]}), om)
    graph = FlowGraph(list(ModelProcessPoint(om).fnode(2, 2, "n")(FlowData("a"), FlowData("b"))))
    with pytest.raises(ModelFormatError, match="different names"):
        FlowModelBuilder(registry).build(graph)


def test_a_model_of_an_engine_that_is_not_here_is_refused(registry, fakes, om):
    """BC-079: it could be loaded, and would fail only when it runs."""
    fakes.missing.add("UDF")
    graph = FlowGraph(list(ModelProcessPoint(om).fnode(2, 2, "n")(FlowData("a"), FlowData("b"))))
    with pytest.raises(PluginError, match="pip install dflow-pne-udf"):
        FlowModelBuilder(fakes.registry()).build(graph)


def test_loading_twice_gives_what_was_saved(compiled, om):
    assert read_om(om) == read_om(om) == compiled
