"""Names: given, automatic, scoped; from any thread (BC-091, BC-092)."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dflow_core.errors import UsageError
from dflow_core.graph import FlowData, FlowGraph, FlowNode, FuncProcessPoint, name_scope
from tests.unit.graph.kit import func, kinds, only_fault


def chain(*names: str | None) -> FlowGraph:
    value = FlowData("x")
    for name in names:
        value = FuncProcessPoint("", "add", package=b"c").fnode(1, 1, name)(value)
    return FlowGraph([value])


def names(graph: FlowGraph) -> list[str]:
    return [node.name for node in graph.nodes]


def test_automatic_names_are_made_from_the_point_and_differ():
    assert names(chain(None, None, None)) == ["add", "add_1", "add_2"]


@pytest.mark.parametrize("given", [("add_1", None, None), (None, "add_1", None), (None, None, "add_1")])
def test_automatic_names_keep_out_of_the_way_of_given_ones(given):
    """BC-092: nodes add, add, add_1."""
    graph = chain(*given)
    assert sorted(names(graph)) == ["add", "add_1", "add_2"]
    assert names(graph)[given.index("add_1")] == "add_1"
    assert graph.faults() == ()


def test_two_equal_given_names_are_a_fault_and_none_is_lost():
    """BC-092: duplicates are refused, never merged."""
    graph = chain("add", "add")
    fault = only_fault(graph)
    assert (fault.kind, fault.node) == ("duplicate-name", "add")
    assert "2 nodes" in fault.message
    assert len(graph.nodes) == 2


def test_two_inputs_of_one_name_are_a_fault():
    """BC-092: two FlowData with one name."""
    fault = only_fault(FlowGraph([func(2)(FlowData("x"), FlowData("x"))]))
    assert (fault.kind, fault.node) == ("duplicate-name", "x")


def test_an_alias_equal_to_another_node_is_a_fault():
    """BC-092: deploy file lookup is unambiguous."""
    first, second = func(name="a"), func(name="b")
    second.set_alias("a")
    assert kinds(FlowGraph([second(first(FlowData()))])) == ["duplicate-name"]


def test_an_alias_equal_to_the_own_name_is_accepted():
    node = func(name="a").set_alias("a")
    assert FlowGraph([node(FlowData())]).faults() == ()


def test_two_equal_aliases_are_a_fault():
    first, second = func(name="a").set_alias("z"), func(name="b").set_alias("z")
    assert kinds(FlowGraph([second(first(FlowData()))])) == ["duplicate-name"]


@pytest.mark.parametrize("name", ["a/b", "with spaces", "über", "模型", "a:0", "x" * 127, "'\"$"])
def test_odd_names_are_taken_as_they_are(name):
    """BC-092: names with '/', spaces."""
    graph = FlowGraph([func(name=name)(FlowData(name))])
    assert graph.faults() == ()
    assert names(graph) == [name]


@pytest.mark.parametrize(
    ("name", "words"), [("x" * 300, "127 characters, got 300"), ("", "not empty"), ("a\nb", "printable")]
)
def test_names_nobody_could_use_are_faults(name, words):
    """BC-092: 300 letters."""
    fault = only_fault(FlowGraph([func(name=name)(FlowData("x"))]))
    assert fault.kind == "name"
    assert words in fault.message
    assert len(str(fault)) < 300


def test_a_name_of_another_type_is_refused_at_once():
    for make in (lambda: FlowData(3), lambda: FlowNode(1, 1, b"x"), lambda: FuncProcessPoint("", 3)):
        with pytest.raises(UsageError, match="text"):
            make()


def test_scopes_go_before_given_and_automatic_names_and_nest():
    with name_scope("ocr") as outer:
        first = func(name="det")
        with name_scope("rec/inner") as inner:
            second, data = FlowNode(1, 1), FlowData("x")
    assert (outer, inner) == ("ocr/", "ocr/rec/inner/")
    assert (first.name, data.name) == ("ocr/det", "ocr/rec/inner/x")
    second.add_process_point(FuncProcessPoint(package=b"c"))
    assert FlowGraph([second(first(data))]).nodes[1].name == "ocr/rec/inner/FlowNode"
    assert func(name="det").name == "det"


def test_a_scope_ends_when_the_block_raises():
    with pytest.raises(RuntimeError), name_scope("a"):
        raise RuntimeError
    assert FlowData("x").name == "x"


@pytest.mark.parametrize("scope", ["", "/", None, 3])
def test_a_scope_without_a_name_is_refused(scope):
    with pytest.raises(UsageError, match="name scope"), name_scope(scope):
        pass


def test_two_threads_build_graphs_at_once_and_get_the_names_they_would_get_alone():
    """BC-091: build from a thread other than main."""
    barrier = threading.Barrier(8)

    def build(number: int) -> list[str]:
        barrier.wait(10)
        with name_scope(f"t{number}"):
            graph = chain(None, None, None)
        return names(graph)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(build, range(8)))
    assert results == [[f"t{i}/add", f"t{i}/add_1", f"t{i}/add_2"] for i in range(8)]


def test_scopes_of_asyncio_tasks_do_not_mix():
    """BC-091: from an asyncio executor."""

    async def build(scope: str) -> str:
        with name_scope(scope):
            await asyncio.sleep(0)
            return func(name="n").name

    async def both() -> list[str]:
        return await asyncio.gather(build("a"), build("b"))

    assert asyncio.run(both()) == ["a/n", "b/n"]


def test_a_settled_name_stays_when_the_node_enters_a_second_graph():
    x = FlowData("x")
    first, second = func(), func()
    FlowGraph([first(x), second(x)])
    other = func(name=second.name)
    graph = FlowGraph([other(second(x))])
    assert second.name == "FlowNode_1"
    assert kinds(graph) == ["duplicate-name"]


def test_many_automatic_inputs_sort_in_the_order_they_were_made():
    data = [FlowData() for _ in range(12)]
    graph = FlowGraph([func(12)(*reversed(data))])
    assert graph.inputs == tuple(data)
    assert graph.input_names[:2] == ("FlowData", "FlowData_01")


def test_a_node_named_like_the_graph_does_not_share_a_stream_with_an_input():
    fault = only_fault(FlowGraph([func(name="g")(FlowData("0"))], name="g"))
    assert (fault.kind, fault.port) == ("duplicate-name", "output 0")


def test_two_results_of_one_name_are_a_fault():
    two, one = func(1, 2, name="a"), func(1, 1, name="a:0")
    x = FlowData("x")
    assert kinds(FlowGraph([two(x)[0], one(x)])) == ["duplicate-name"]


def test_a_name_given_later_takes_part_in_scopes():
    node = func()
    assert node.set_name("det") is node
    assert FlowGraph([node(FlowData())]).output_names == ("det",)
