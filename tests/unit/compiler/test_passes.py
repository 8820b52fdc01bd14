"""The pass machinery, and each pass on plain data."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest

from dflow_core.compiler.ir import IrGraph, IrInput, IrNode, IrOutput
from dflow_core.compiler.lower import lower
from dflow_core.compiler.passes import Flatten, InsertBatchNodes, Pass, PassResult, PassSequence, Prune
from dflow_core.errors import CompileError, GraphError, OptionError
from dflow_core.graph import CountBatch, FlowData, FlowGraph, FuncProcessPoint, QueueSettings, TimeBatch
from dflow_core.types import FuncSpec, NodeOptions

POINT = FuncProcessPoint(package=b"x")


def node(name: str, *inputs: str, outs: int = 1, **more: object) -> IrNode:
    outputs = tuple(f"{name}:{i}" for i in range(outs))
    return IrNode(name, POINT, inputs, outputs, (QueueSettings(),) * outs, **more)


def graph(*nodes: IrNode, outputs: tuple[str, ...] = (), inputs: tuple[str, ...] = ("x",)) -> IrGraph:
    ins = tuple(IrInput(name, f"g:{name}") for name in inputs)
    return IrGraph("g", ins, nodes, tuple(IrOutput(e, e) for e in outputs))


class Step(Pass):
    """Does what the test says."""

    name: ClassVar[str] = "step"

    def __init__(self, apply=None, requires=None, ensures=None, name="step"):
        self._apply, self._requires, self._ensures = apply, requires, ensures
        self.name = name  # type: ignore[misc]

    def requires(self, graph):
        return self._requires

    def ensures(self, graph):
        return self._ensures

    def apply(self, graph):
        return self._apply(graph) if self._apply else PassResult(graph, ("done",))


def test_a_sequence_runs_in_order_and_collects_what_changed():
    seen = []

    def note(name):
        return Step(lambda g: (seen.append(name), PassResult(g, (name.upper(),)))[1], name=name)

    result = PassSequence([note("one"), PassSequence([note("two")]), note("three")]).run(graph())
    assert seen == ["one", "two", "three"]
    assert result.changed == ("one: ONE", "sequence: two: TWO", "three: THREE")


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Step(requires="no x", name="bad"), r"pass bad \(after a, b\) cannot run: no x"),
        (Step(ensures="no y", name="bad"), r"pass bad \(after a, b\) broke its promise: no y"),
        (Step(lambda g: 1 // 0, name="bad"), r"pass bad \(after a, b\) failed: ZeroDivisionError"),
    ],
)
def test_an_error_names_the_pass_and_those_before_it(step: Step, text: str):
    with pytest.raises(CompileError, match=text):
        PassSequence([Step(name="a"), Step(name="b"), step, Step(name="c")]).run(graph())


def test_the_first_pass_says_that_it_is():
    with pytest.raises(CompileError, match=r"pass step \(as the first pass\) cannot run"):
        Step(requires="no").run(graph())


def test_errors_for_the_user_pass_through():
    def refuse(_graph):
        raise OptionError("yours")

    with pytest.raises(OptionError, match="^yours$"):
        Step(refuse).run(graph())


def test_prune_takes_out_what_no_output_needs():
    given = graph(
        node("a", "g:x"), node("b", "a:0"), node("dead", "a:0"), node("deader", "dead:0", "g:y"),
        outputs=("b:0",), inputs=("x", "y"),
    )
    result = Prune().run(given)
    assert [n.name for n in result.graph.nodes] == ["a", "b"]
    assert [i.name for i in result.graph.inputs] == ["x", "y"]
    assert result.changed == tuple(f"{n}: taken out, no output needs it" for n in ("dead", "deader"))


def test_prune_keeps_everything_that_is_needed():
    given = graph(node("a", "g:x", outs=2), node("b", "a:1"), outputs=("b:0", "a:0"))
    result = Prune().run(given)
    assert result.graph is given and result.changed == ()


def batched(*batches: tuple[object, ...], name: str = "a") -> IrNode:
    return node(name, *(f"g:{i}" for i in range(len(batches))), batches=batches)


def test_batch_attributes_become_nodes_in_front():
    """Times stay seconds; the batch node runs once, whatever the node it serves does."""
    given = replace(
        batched((CountBatch(4, 2, 0.5, True),), (), (TimeBatch(2.5, 1, True),)), options=NodeOptions(instances=3)
    )
    result = InsertBatchNodes().run(graph(given, outputs=("a:0",)))
    count, time, node_ = result.graph.nodes
    assert count.name == "a__BuiltIn_CountBatch_0" and time.name == "a__BuiltIn_TimeBatch_2"
    assert isinstance(count.point, FuncProcessPoint) and count.point.builtin == "_BuiltIn_CountBatch"
    assert count.point.init_params == {"batch_size": 4, "timeout": 0.5, "padding": True, "slide_stride": 2}
    assert isinstance(time.point, FuncProcessPoint) and time.point.builtin == "_BuiltIn_TimeBatch"
    assert time.point.init_params == {"window": 2.5, "batch_dim": 1, "drop_remainder": True}
    assert (count.inputs, time.inputs) == (("g:0",), ("g:2",))
    assert node_.inputs == ("a__BuiltIn_CountBatch_0:0", "g:1", "a__BuiltIn_TimeBatch_2:0")
    assert count.functions == (FuncSpec("", (0,), (0,), holds_inputs=True, n_mapping=True),)
    assert count.options == NodeOptions() and node_.options.instances == 3
    assert not any(n.batches for n in result.graph.nodes)


def test_one_batch_object_on_many_inputs_makes_nodes_of_their_own():
    """BC-041: independent names and parameters, whatever happens to the object afterwards."""
    same = CountBatch(3)
    nodes = batched((same,), (same,)), batched((same,), name="b")
    result = InsertBatchNodes().run(graph(*nodes, outputs=("a:0", "b:0")))
    made = [n for n in result.graph.nodes if n.name not in "ab"]
    assert [n.name for n in made] == [
        "a__BuiltIn_CountBatch_0", "a__BuiltIn_CountBatch_1", "b__BuiltIn_CountBatch_0",
    ]
    assert len({id(n.point) for n in made}) == 3
    assert len({id(n.point.init_params) for n in made}) == 3


def test_batching_reaches_into_graphs_inside():
    inner = IrGraph("i", (IrInput("0", "g:0"),), (batched((CountBatch(2),)),), (IrOutput("a", "a:0"),))
    result = PassSequence([InsertBatchNodes(), Flatten()]).run(graph(node("n", "g:x", body=inner), outputs=("n:0",)))
    assert [n.name for n in result.graph.nodes] == ["n/a__BuiltIn_CountBatch_0", "n/a"]
    assert result.graph.nodes[0].inputs == ("g:x",)


def test_batching_in_front_of_a_graph_inside():
    inner = IrGraph("i", (IrInput("0", "g:0"),), (node("a", "g:0"),), (IrOutput("a", "a:0"),))
    outer = replace(batched((TimeBatch(-1),), name="n"), body=inner)
    result = PassSequence([InsertBatchNodes(), Flatten()]).run(graph(outer, outputs=("n:0",), inputs=("0",)))
    assert [n.name for n in result.graph.nodes] == ["n__BuiltIn_TimeBatch_0", "n/a"]
    assert result.graph.nodes[1].inputs == ("n__BuiltIn_TimeBatch_0:0",)


def test_two_ways_to_batch_one_input_are_refused():
    with pytest.raises(GraphError, match="a input 0: 2 ways"):
        InsertBatchNodes().run(graph(batched((CountBatch(1), TimeBatch(1.0)))))


def test_a_node_called_like_a_batch_node_is_refused():
    """BC-092."""
    with pytest.raises(GraphError, match="a node is called 'a__BuiltIn_CountBatch_0' already"):
        InsertBatchNodes().run(graph(node("a__BuiltIn_CountBatch_0", "g:x"), batched((CountBatch(1),))))


def test_flatten_refuses_names_that_meet():
    """BC-092: a model file's nodes are not known before it is read."""
    inner = IrGraph("i", (), (node("a"),), (IrOutput("a", "a:0"),))
    with pytest.raises(GraphError, match="duplicate-name"):
        Flatten().run(graph(node("n/a", "g:x"), node("n", body=inner)))
    with pytest.raises(GraphError, match="an input and an output have this name"):
        Flatten().run(IrGraph("n/a", (IrInput("0", "n/a:0"),), (node("n", body=inner),), ()))


def test_flatten_lets_one_inner_output_stand_for_several():
    inner = IrGraph("i", (IrInput("p", "i:p"),), (node("a", "i:p"),), (IrOutput("0", "a:0"), IrOutput("1", "a:0")))
    given = graph(node("n", "g:x", outs=2, body=inner), node("b", "n:0", "n:1"), outputs=("b:0", "n:1"))
    result = Flatten().run(given).graph
    assert result.nodes[1].inputs == ("n/a:0", "n/a:0")
    assert [o.endpoint for o in result.outputs] == ["b:0", "n/a:0"]
    assert [o.name for o in result.outputs] == ["b:0", "n:1"]


def test_flatten_passes_an_inner_input_through_to_an_output():
    inner = IrGraph("i", (IrInput("p", "i:p"),), (), (IrOutput("0", "i:p"),))
    result = Flatten().run(graph(node("n", "g:x", body=inner), node("b", "n:0"), outputs=("b:0",))).graph
    assert result.nodes[0].inputs == ("g:x",)


def test_flatten_gives_options_to_the_one_node_inside():
    inner = IrGraph("i", (), (node("a", options=NodeOptions(threads=2, instances=4)),), (IrOutput("a", "a:0"),))
    result = Flatten().run(graph(node("n", body=inner, options=NodeOptions(instances=3)))).graph
    assert result.nodes[0].options == NodeOptions(threads=2, instances=3)


def test_flatten_refuses_engines_that_contradict():
    inner = IrGraph("i", (), (node("a", engine="CPU"), node("b")), (IrOutput("a", "a:0"),))
    with pytest.raises(GraphError, match="engine 'NPU' is wanted for a graph whose nodes want others"):
        Flatten().run(graph(node("n", body=inner, engine="NPU")))
    result = Flatten().run(graph(node("n", body=inner, engine="CPU"))).graph
    assert [n.engine for n in result.nodes] == ["CPU", "CPU"]


def test_lowering_keeps_schemas_and_settings(func):
    data = FlowData("x")
    lowered = lower(FlowGraph([func("a")(data)], {"queue_depth": 4}, "g"))
    assert lowered.inputs == (IrInput("x", "g:x", None),)
    assert lowered.nodes[0].settings == {"queue_depth": 4}
