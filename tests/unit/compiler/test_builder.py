from __future__ import annotations

import signal
import threading
import time

import pytest

from dflow_core.compiler import FlowModelBuilder, check_graph
from dflow_core.compiler.nodes import _in_parallel
from dflow_core.errors import CompileError, GraphError, ModelFormatError, OptionError, PluginError
from dflow_core.graph import (
    CountBatch,
    FlowData,
    FlowGraph,
    FlowGraphProcessPoint,
    FuncProcessPoint,
    ProcessPoint,
)
from dflow_core.graph.serde import deserialize_graph
from dflow_core.model import Endpoint, GraphModel, ModelEndpoints, UdfModel
from dflow_core.types import DataType, FuncSpec, NodeOptions, TensorSpec


class OddPoint(ProcessPoint):
    kind = "odd"


def test_a_chain_is_compiled_and_joined_by_name(registry, func, model):
    x = FlowData("x")
    a = model("a")(x)
    b = func("b").set_options(instances=2)(a)
    graph = FlowGraph([b], name="g")
    built = FlowModelBuilder(registry).build(graph)
    assert built.name == "g"
    assert list(built.submodels) == ["a", "b"]
    relation = built.relation
    assert relation.endpoints == (Endpoint("g:x"), Endpoint("a:0"), Endpoint("b:0"))
    assert relation.submodels["b"] == ModelEndpoints("b", ("a:0",), ("b:0",))
    assert relation.root == ModelEndpoints("g", ("g:x",), ("b:0",))
    assert (relation.input_names, relation.output_names) == (("x",), ("b",))
    first, second = built.submodels.values()
    assert isinstance(first, GraphModel) and (first.name, first.engine) == ("a", "CPU")
    assert first.functions == (FuncSpec("", (0,), (0,)),)
    assert isinstance(second, UdfModel) and second.options == NodeOptions(instances=2)
    assert second.functions == (FuncSpec("run", (0,), (0,)),)
    assert second.inputs == (TensorSpec(DataType.UNDEFINED),)


def test_the_model_says_what_made_it_and_holds_the_graph(registry, func):
    graph = FlowGraph([func("a")(FlowData("x"))], {"queue_depth": "5"}, "g")
    built = FlowModelBuilder(registry, {"fetch_timeout": "7"}).build(graph)
    assert built.made_by["engine UDF"] == "1" and built.made_by["spi"] == "1" and built.made_by["dflow"]
    assert (built.options["queue_depth"], built.options["fetch_timeout"]) == ("5", "7.0")
    assert deserialize_graph(built.graph).output_names == ("a",)


def test_the_users_graph_is_only_read(registry, func):
    node = func("a", 2)
    node.map_input(0, node.point, 1, [CountBatch(3)])
    node.map_input(1, node.point, 0, [CountBatch(3)])
    graph = FlowGraph([node(FlowData("x"), FlowData("y"))])
    before = str(graph), node.input_maps, node.sources
    FlowModelBuilder(registry).build(graph)
    assert (str(graph), node.input_maps, node.sources) == before


def test_fan_out_several_outputs_and_unread_ones(registry, func):
    x = FlowData("x")
    left, _, right = func("a", 1, 3)(x)
    join = func("j", 3)(left, right, x)
    built = FlowModelBuilder(registry).build(FlowGraph([join, left], name="g"))
    assert built.relation.submodels["j"].inputs == ("a:0", "a:2", "g:x")
    assert built.relation.root.outputs == ("j:0", "a:0")
    assert built.relation.output_names == ("j", "a:0")
    assert {e.name for e in built.relation.endpoints if e.dummy} == {"a:1"}


def test_inputs_mapped_crosswise_are_straightened(registry, func):
    node = func("a", 2, 2)
    node.map_input(0, node.point, 1)
    node.map_input(1, node.point, 0)
    node.map_output(0, node.point, 1)
    node.map_output(1, node.point, 0)
    node.set_queue(1, depth=9)
    first, second = node(FlowData("x"), FlowData("y"))
    built = FlowModelBuilder(registry).build(FlowGraph([first, second], name="g"))
    assert built.relation.submodels["a"] == ModelEndpoints("a", ("g:y", "g:x"), ("a:1", "a:0"))
    assert built.relation.root.outputs == ("a:0", "a:1")
    assert built.relation.endpoint("a:1").depth == 9


def test_queue_settings_reach_the_endpoints(registry, func):
    node = func("a").set_queue(0, depth=3, overflow="drop_newest")
    built = FlowModelBuilder(registry).build(FlowGraph([node(FlowData("x"))]))
    assert built.relation.endpoint("a:0") == Endpoint("a:0", 3, "drop_newest")


def test_all_faults_come_at_once(registry, func, model):
    node = func("a", 2)
    node.set_attr("depht", 1)
    x = FlowData("x", TensorSpec(DataType.INT8, (1, 4)))
    graph = FlowGraph([node(x, model("m", "missing")(x)), model("n")(x)], name="g")
    with pytest.raises(GraphError) as caught:
        FlowModelBuilder(registry).build(graph)
    assert {(f.kind, f.node) for f in caught.value.faults} == {("attribute", "a"), ("model", "m"), ("dtype", "n")}


def test_an_engine_that_fails_to_look_is_a_fault_and_not_a_crash(registry, model):
    graph = FlowGraph([model("m", "explode")(FlowData("x"))])
    (fault,) = check_graph(graph, registry)
    assert "engine 'CPU' cannot read it: ZeroDivisionError" in fault.message


def test_a_missing_plugin_says_what_to_install(fakes, func):
    """BC-079."""
    fakes.missing.add("UDF")
    graph = FlowGraph([func("a")(FlowData("x"))])
    with pytest.raises(PluginError, match="pip install dflow-pne-udf") as caught:
        FlowModelBuilder(fakes.registry()).build(graph)
    assert caught.value.node == "a"
    (fault,) = check_graph(graph, fakes.registry())
    assert (fault.kind, fault.hint) == ("plugin", "pip install dflow-pne-udf")


def test_all_nodes_without_an_engine_are_named(fakes, func, model):
    fakes.missing |= {"UDF"}
    graph = FlowGraph([OddPoint().fnode(1, 1, "b")(func("a")(func("c")(FlowData("x"))))])
    with pytest.raises(PluginError, match="2 nodes have no engine") as caught:
        FlowModelBuilder(fakes.registry()).build(graph)
    assert "node 'a'" in str(caught.value) and "node 'c'" in str(caught.value)


def test_a_misspelt_engine_names_the_near_one_and_nothing_falls_back(registry, model):
    """BC-079."""
    graph = FlowGraph([model("a").set_options(engine="CPUU")(FlowData("x"))])
    with pytest.raises(PluginError, match="did you mean 'CPU'"):
        FlowModelBuilder(registry).build(graph)


def test_the_engine_can_be_named_on_node_graph_and_session(registry, model, func):
    """BC-065: the last one that has it wins; functions do not follow."""
    def engines(node_engine="", graph_options=None, session=None):
        node = model("a").set_options(engine=node_engine)
        graph = FlowGraph([func("f")(node(FlowData("x")))], graph_options)
        return {name: sub.engine for name, sub in FlowModelBuilder(registry, session).build(graph).submodels.items()}

    assert engines() == {"a": "CPU", "f": "UDF"}
    assert engines(session={"engine": "CPU2"}) == {"a": "CPU2", "f": "UDF"}
    assert engines("", {"engine": "CPU"}, {"engine": "CPU2"}) == {"a": "CPU", "f": "UDF"}
    assert engines("CPU2", {"engine": "CPU"}) == {"a": "CPU2", "f": "UDF"}


def test_an_unknown_option_is_refused(registry, func):
    graph = FlowGraph([func("a")(FlowData("x"))], {"queue_dept": "3"})
    with pytest.raises(OptionError, match="did you mean 'queue_depth'"):
        FlowModelBuilder(registry).build(graph)


def test_an_error_of_an_engine_names_the_node(registry, model):
    with pytest.raises(CompileError, match="node 'a': broken cannot be compiled"):
        FlowModelBuilder(registry).build(FlowGraph([model("a", "broken")(FlowData("x"))]))


def test_anything_else_an_engine_raises_becomes_an_error_with_its_cause(registry, model):
    with pytest.raises(CompileError, match="engine 'CPU' cannot compile it: ZeroDivisionError: compile") as caught:
        FlowModelBuilder(registry).build(FlowGraph([model("a", "crash")(FlowData("x"))]))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_errors_of_several_nodes_are_all_told(registry, model):
    x = FlowData("x")
    graph = FlowGraph([model("a", "broken 1")(x), model("b")(x), model("c", "broken 2")(x)])
    with pytest.raises(CompileError, match="2 nodes cannot be compiled") as caught:
        FlowModelBuilder(registry).build(graph)
    assert "node 'a': broken 1" in str(caught.value) and "node 'c': broken 2" in str(caught.value)
    assert not isinstance(caught.value, ModelFormatError)


def test_a_model_with_other_ports_than_its_node_is_refused(registry, model, monkeypatch, fakes):
    graph = FlowGraph([model("a", "two")(FlowData("x"))])
    with pytest.raises(CompileError, match="node 'a': the model has 2 inputs, the node 1"):
        FlowModelBuilder(registry).build(graph)


def test_nodes_compile_in_parallel(fakes, registry, model):
    x = FlowData("x")
    barrier = threading.Barrier(3, timeout=10)
    graph = FlowGraph([model(name, name)(x) for name in "abc"])
    builder = FlowModelBuilder(registry)
    registry.engine("CPU").engine().before = lambda _node: barrier.wait() and None
    builder.build(graph)
    assert fakes.compiled == ["a", "b", "c"]


class InterruptedPool:
    """The user presses Ctrl-C while the first result is waited for."""

    def __init__(self) -> None:
        self.ended: dict[str, bool] = {}

    def submit(self, *_args: object) -> InterruptedPool:
        return self

    def exception(self) -> None:
        raise KeyboardInterrupt

    def shutdown(self, **how: bool) -> None:
        self.ended = how


def test_an_interrupt_starts_no_further_node():
    pool = InterruptedPool()
    with pytest.raises(KeyboardInterrupt):
        _in_parallel(pool, str, [1, 2])
    assert pool.ended == {"wait": False, "cancel_futures": True}


def test_an_interrupt_tells_engines_that_work_that_nobody_waits(registry, model, monkeypatch):
    engine = registry.engine("CPU").engine()
    started, told = threading.Event(), []

    def compile_slowly(_point, context):
        started.set()
        deadline = time.monotonic() + 30
        while not context.cancelled() and time.monotonic() < deadline:
            started.wait(0.01)
        told.append(context.cancelled())
        raise CompileError("given up")

    monkeypatch.setattr(engine, "compile", compile_slowly)
    main = threading.get_ident()
    threading.Thread(target=lambda: started.wait(30) and signal.pthread_kill(main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        FlowModelBuilder(registry).build(FlowGraph([model("a", "1")(FlowData("x"))]))
    assert told == [True]


def test_an_engine_that_ends_the_process_does_not(registry, model):
    def leave(_node: str) -> None:
        raise SystemExit(3)

    registry.engine("CPU").engine().before = leave
    with pytest.raises(CompileError, match="SystemExit: 3"):
        FlowModelBuilder(registry).build(FlowGraph([model("a", "1")(FlowData("x"))]))


def test_a_missing_library_is_said_to_be_missing(fakes, registry, model):
    def lack(_node: str) -> None:
        raise ImportError("No module named 'openvino'", name="openvino")

    registry.engine("CPU").engine().before = lack
    with pytest.raises(PluginError, match=r"node 'a': engine 'CPU' cannot compile it: No module named 'openvino'"):
        FlowModelBuilder(registry).build(FlowGraph([model("a")(FlowData("x"))]))


def test_equal_nodes_are_compiled_once(fakes, registry, model):
    x = FlowData("x")
    graph = FlowGraph([model("a").set_options(instances=2)(x), model("b")(x), model("c", "other")(x)])
    built, report = FlowModelBuilder(registry).build_and_report(graph)
    assert len(fakes.compiled) == 2
    assert {node.node: node.cache for node in report.nodes} == {"a": "off", "b": "shared", "c": "off"}
    assert built.submodels["a"].source is built.submodels["b"].source
    assert [built.submodels[n].options.instances for n in "ab"] == [2, 1]


def test_the_report_tells_engine_notes_time_and_changes(registry, model):
    node = model("a", "this model")
    node.map_input(0, node.point, 0, [CountBatch(2)])
    _, report = FlowModelBuilder(registry).build_and_report(FlowGraph([node(FlowData("x"))]))
    batch, first = report.nodes
    assert (first.node, first.engine, first.notes) == ("a", "CPU", ("this model was easy",))
    assert batch.node == "a__BuiltIn_CountBatch_0"
    assert 0 <= first.seconds <= report.seconds
    assert "batching: a__BuiltIn_CountBatch_0: put in front of input 0" in report.changes
    assert "assign_engines: a: engine CPU" in report.changes


def test_a_graph_that_cannot_be_written_still_compiles(registry):
    built, report = FlowModelBuilder(registry).build_and_report(FlowGraph([OddPoint().fnode(1, 1, "a")(FlowData("x"))]))
    assert built.graph == b""
    assert any("holds no graph to look at" in change for change in report.changes)


def test_a_nested_graph_is_poured_in(registry, func):
    p, q = FlowData("p"), FlowData("q")
    inner_a = func("a", 2)(p, q)
    inner = FlowGraph([func("b")(inner_a), inner_a], name="inner")
    node = FlowGraphProcessPoint(inner).fnode(2, 2, "n").set_queue(1, depth=7)
    x, y = FlowData("x"), FlowData("y")
    first, second = node(func("pre")(x), y)
    built = FlowModelBuilder(registry).build(FlowGraph([func("post", 2)(first, second), second], name="g"))
    relation = built.relation
    assert list(built.submodels) == ["pre", "n/a", "n/b", "post"]
    assert relation.submodels["n/a"] == ModelEndpoints("n/a", ("pre:0", "g:y"), ("n/a:0",))
    assert relation.submodels["post"].inputs == ("n/b:0", "n/a:0")
    assert relation.root.outputs == ("post:0", "n/a:0")
    assert relation.output_names == ("post", "n:1")
    assert relation.endpoint("n/a:0").depth == 7


def test_one_graph_can_be_nested_twice_and_in_itself_nested(registry, func):
    inner = FlowGraph([func("a")(FlowData("p"))], name="inner")
    middle_data = FlowData("m")
    middle = FlowGraph([FlowGraphProcessPoint(inner).fnode(1, 1, "i")(middle_data)], name="middle")
    x = FlowData("x")
    first = FlowGraphProcessPoint(middle).fnode(1, 1, "n1")(x)
    second = FlowGraphProcessPoint(middle).fnode(1, 1, "n2")(first)
    built = FlowModelBuilder(registry).build(FlowGraph([second], name="g"))
    assert built.relation.submodels["n2/i/a"] == ModelEndpoints("n2/i/a", ("n1/i/a:0",), ("n2/i/a:0",))
    assert built.relation.root.outputs == ("n2/i/a:0",)


def test_graphs_nested_too_deep_are_refused(registry, func):
    graph = FlowGraph([func("a")(FlowData("x"))])
    for depth in range(16):
        graph = FlowGraph([FlowGraphProcessPoint(graph).fnode(1, 1, f"n{depth}")(FlowData("x"))])
        if depth == 14:
            (name,) = FlowModelBuilder(registry).build(graph).submodels
            assert name == "/".join(f"n{level}" for level in range(14, -1, -1)) + "/a"
    with pytest.raises(GraphError, match="nest"):
        FlowModelBuilder(registry).build(graph)


def test_inner_outputs_nobody_reads_take_their_nodes_along(registry, func):
    p = FlowData("p")
    inner = FlowGraph([func("a")(p), func("b")(p)], name="inner")
    first, _ = FlowGraphProcessPoint(inner).fnode(1, 2, "n")(FlowData("x"))
    built, report = FlowModelBuilder(registry).build_and_report(FlowGraph([first]))
    assert list(built.submodels) == ["n/a"]
    assert "prune: n/b: taken out, no output needs it" in report.changes


def test_an_input_only_a_pruned_node_read_stays_and_is_marked(registry, func):
    inner = FlowGraph([func("a")(FlowData("p")), func("b")(FlowData("q"))], name="inner")
    first, _ = FlowGraphProcessPoint(inner).fnode(2, 2, "n")(FlowData("x"), FlowData("y"))
    built = FlowModelBuilder(registry).build(FlowGraph([first], name="g"))
    assert built.relation.input_names == ("x", "y")
    assert built.relation.endpoint("g:y").dummy and not built.relation.endpoint("g:x").dummy


def test_options_of_a_nested_graph_that_would_do_nothing_are_refused(registry, func):
    """BC-065."""
    inner = FlowGraph([func("b")(func("a")(FlowData("p")))], name="inner")
    node = FlowGraphProcessPoint(inner).fnode(1, 1, "n").set_options(instances=2)
    with pytest.raises(GraphError, match="no effect"):
        FlowModelBuilder(registry).build(FlowGraph([node(FlowData("x"))]))
    inner = FlowGraph([func("a")(FlowData("p"))], {"memory_limit": "1G"}, name="inner")
    node = FlowGraphProcessPoint(inner).fnode(1, 1, "n")
    with pytest.raises(OptionError, match="'memory_limit' has no effect on graph 'inner'"):
        FlowModelBuilder(registry).build(FlowGraph([node(FlowData("x"))]))


def test_options_of_a_nested_graph_are_in_force_inside(registry, model):
    inner = FlowGraph([model("a")(FlowData("p"))], {"engine": "CPU2", "queue_depth": 3}, name="inner")
    x = FlowData("x")
    inside = FlowGraphProcessPoint(inner).fnode(1, 1, "n").set_options(instances=2)(x)
    built = FlowModelBuilder(registry).build(FlowGraph([model("b")(inside)]))
    assert {name: sub.engine for name, sub in built.submodels.items()} == {"n/a": "CPU2", "b": "CPU"}
    assert built.relation.endpoint("n/a:0").depth == 3 and built.relation.endpoint("b:0").depth == 0
    assert built.submodels["n/a"].options.instances == 2


def test_a_builtin_is_checked_when_the_graph_is_compiled(registry, fakes):
    def graph(**params):
        point = FuncProcessPoint(builtin="_BuiltIn_CountBatch")
        for name, value in params.items():
            point.set_init_param(name, value)
        return FlowGraph([point.fnode(1, 1, "n")(FlowData("x"))])

    built = FlowModelBuilder(registry).build(graph(batch_size=2))
    assert built.submodels["n"].functions[0].holds_inputs and built.submodels["n"].functions[0].n_mapping
    with pytest.raises(OptionError, match="no parameter 'batch_sice'"):
        FlowModelBuilder(registry).build(graph(batch_sice=2))
    with pytest.raises(OptionError, match="needs parameter batch_size"):
        FlowModelBuilder(registry).build(graph())
    fakes.missing.add("_BuiltIn_CountBatch")
    with pytest.raises(PluginError, match="pip install dflow-builtin-udf"):
        FlowModelBuilder(fakes.registry()).build(graph(batch_size=2))
