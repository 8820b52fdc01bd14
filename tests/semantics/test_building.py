"""What can be built: wiring, mappings, attributes of queues, balance, alignment, caches, options.

Sections 6.1, 19, 26 and 28 of the notes on the run time, 7 of those on the interface, 7, 9 and 11 of those on files.
Every fault of a graph is told by its first feed; the graphs of most rows are compiled and not started.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dataflow as df
from dataflow.settings import session_options
from dflow_core.compiler import FlowModelBuilder
from dflow_core.deploy import machine_resources, plan_deployment
from dflow_core.options import parse, resolve
from dflow_core.plugins import load_plugins
from tests.semantics.rules import Rule, rules, shows

FAILED = 0xFFFFFFFF
LIMIT = 20000


@df.pyflow
def echo(x):
    return x


@df.pyflow
def add(x, y):
    return (x, y)


@df.pyflow(num_returns=2)
def both(x, y):
    return x, y


@df.pyflow(stream_input="Queue")
def from_queue(q):
    yield q.get()


def first_feed(
    *outputs: df.FlowOutput, options: dict[str, str] | None = None,
    change: Callable[[df.FlowGraph], object] | None = None,
) -> int:
    """The code of the first feed of a graph that is compiled only."""
    graph = df.FlowGraph(list(outputs), {"ge.runFlag": "0", **(options or {})})
    if change is not None:
        change(graph)
    return graph.feed_data(dict.fromkeys(graph._inputs, 1) or {df.FlowData(): 1}, df.FlowInfo(flow_flags=1))


def echo_with(**attrs: object) -> int:
    node = echo.fnode()
    for name, value in attrs.items():
        node.set_attr(name, value)
    return first_feed(node(df.FlowData()))


@rules(
    Rule("6.1", "_flow_attr_depth of 1.", {"_flow_attr_depth": 1}, 0),
    Rule("6.1", "_flow_attr_depth of 0.", {"_flow_attr_depth": 0}, FAILED),
    Rule("6.1", "_flow_attr_depth below 0.", {"_flow_attr_depth": -1}, FAILED),
    Rule("6.1", "_flow_attr_depth that is no number.", {"_flow_attr_depth": "4"}, FAILED),
    Rule("6.1", "The policy FIFO.", {"_flow_attr_enqueue_policy": "FIFO"}, 0),
    Rule("6.1", "The policy OVERWRITE.", {"_flow_attr_enqueue_policy": "OVERWRITE"}, 0),
    Rule("6.1", "Another policy.", {"_flow_attr_enqueue_policy": "fifo"}, FAILED),
    Rule("C11.1", "With _flow_attr=False depth and policy are not looked at.",
         {"_flow_attr": False, "_flow_attr_depth": 0, "_flow_attr_enqueue_policy": "none"}, 0),
    Rule("C11.1", "An attribute nobody knows.", {"_nobody_knows": 5}, 0, "0, with a warning"),
)
def test_queue_attributes(started: object, rule: Rule) -> None:
    assert echo_with(**rule.given) == rule.expected  # type: ignore[arg-type]


def depths(graph: df.FlowGraph, session: dict[str, str]) -> dict[str, tuple[int, str]]:
    """Depth and policy of each queue of a graph, as planned."""
    model = FlowModelBuilder(load_plugins(), session).build(graph.core_graph)
    options = resolve(session, graph.core_graph.options)
    plan = plan_deployment(model, machine_resources(), {"UDF": False}, options, "shm")
    queues = [queue for queue in plan.queues if "->" in queue.name and not queue.name.startswith("dropped")]
    return {queue.name: (queue.depth, queue.overflow) for queue in queues}


@shows(
    Rule("6.1", "A queue has room for 128 messages, and is FIFO.", here="128, as queue_depth= of the session says"),
    Rule("C11.1", "_flow_attr_depth and _flow_attr_enqueue_policy are those of the queues behind the node.",
         here="5 and drop_oldest"),
    Rule("C11.1", "With _flow_attr=False they do nothing.", here="128 and block"),
)
def test_queues_of_a_plan(started: object) -> None:
    data, first, second, third = df.FlowData(name="in"), echo.fnode(), echo.fnode(), echo.fnode()
    for node, switch in ((first, True), (second, False)):
        node.set_attr("_flow_attr", switch)
        node.set_attr("_flow_attr_depth", 5)
        node.set_attr("_flow_attr_enqueue_policy", "OVERWRITE")
    graph = df.FlowGraph([third(second(first(data)))], name="queues")
    found = depths(graph, session_options({}, {}))
    assert {name.partition("->")[0]: value for name, value in found.items()} == {
        "queues:in": (128, "block"), f"{first.name}:0": (5, "drop_oldest"), f"{second.name}:0": (128, "block"),
        f"{third.name}:0": (128, "block"),
    }


# ------------------------------------------------------------------------------------------------------ mappings

def mapped(inputs: list[tuple[int, int]], outputs: list[tuple[int, int]] = (), twice: bool = False) -> int:  # type: ignore[assignment]
    node, point, data = df.FlowNode(2, 2), df.FuncProcessPoint(py_func=both), df.FlowData()
    node.add_process_point(point)
    if twice:
        node.add_process_point(df.FuncProcessPoint(py_func=both))
    for of_node, of_point in inputs:
        node.map_input(of_node, point, of_point)
    for of_node, of_point in outputs:
        node.map_output(of_node, point, of_point)
    return first_feed(*node(data, data))  # type: ignore[misc]


def without_point() -> int:
    return first_feed(df.FlowNode(1, 1)(df.FlowData()))


def point_on_two_nodes() -> int:
    point, data, nodes = df.FuncProcessPoint(py_func=echo), df.FlowData(), [df.FlowNode(1, 1), df.FlowNode(1, 1)]
    for node in nodes:
        node.add_process_point(point)
    return first_feed(*(node(data) for node in nodes))


def wrong_ports() -> int:
    node = df.FlowNode(2, 1)
    node.add_process_point(df.FuncProcessPoint(py_func=echo))
    return first_feed(node(df.FlowData(), df.FlowData()))


def foreign_point() -> int:
    node, data = df.FlowNode(1, 1), df.FlowData()
    node.add_process_point(df.FuncProcessPoint(py_func=echo))
    node.map_input(0, df.FuncProcessPoint(py_func=echo), 0)
    return first_feed(node(data))


def cycle() -> int:
    one, two, data = add.fnode(), echo.fnode(), df.FlowData()
    one(data, data)
    back = two(one._output_anchors[0])
    return first_feed(one(data, back))


def no_input() -> int:
    one, two = echo.fnode(), echo.fnode()
    two(one(df.FlowData()))
    return first_feed(one(two._output_anchors[0]))


def missing_file() -> int:
    return first_feed(df.GraphProcessPoint(df.Framework.ONNX, "nowhere.onnx").fnode(1, 1)(df.FlowData()))


@rules(
    Rule("19", "Every input and output of a node is mapped: without a call, in order.", lambda: mapped([]), 0),
    Rule("P7.4", "Inputs may be mapped crosswise.", lambda: mapped([(0, 1), (1, 0)]), 0),
    Rule("P7.4", "Where one input is mapped, all must be.", lambda: mapped([(0, 0)]), FAILED),
    Rule("P7.4", "Where one output is mapped, all must be.", lambda: mapped([], [(1, 1)]), FAILED),
    Rule("P7.4", "An input of a point mapped twice.", lambda: mapped([(0, 0), (1, 0)]), FAILED),
    Rule("P7.4", "An input of a node mapped twice.", lambda: mapped([(0, 0), (0, 1)]), FAILED),
    Rule("P7.4", "An input the point does not have.", lambda: mapped([(0, 0), (1, 2)]), FAILED),
    Rule("P7.4", "A point that is not the node's.", foreign_point, FAILED),
    Rule("P7.4", "A node with two process points.", lambda: mapped([], [], True), FAILED),
    Rule("P7.6", "A process point on two nodes fails.", point_on_two_nodes, 0, "0: each node has a function of its own",
         differs="a process point may be on one node only"),
    Rule("19", "A node without a process point.", without_point, FAILED,
         differs="nodes without a process point pass for upstream's test stubs"),
    Rule("19", "A node with other ports than its function.", wrong_ports, FAILED),
    Rule("19", "A cycle.", cycle, FAILED),
    Rule("P8.1", "A graph without inputs.", no_input, FAILED),
    Rule("P8.1", "A graph without outputs.", lambda: first_feed(), FAILED),
    Rule("P7.5", "A model file is read when the graph is built, not before.", missing_file, FAILED),
)
def test_wiring(started: object, rule: Rule) -> None:
    assert rule.given() == rule.expected  # type: ignore[operator]


@shows(Rule("P7.4", "map_input crosswise swaps the inputs.", here="([2, 1], 0)"))
def test_a_crosswise_mapping_swaps(started: object) -> None:
    node, point = df.FlowNode(2, 2), df.FuncProcessPoint(py_func=both)
    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    node.add_process_point(point)
    node.map_input(0, point, 1)
    node.map_input(1, point, 0)
    graph = df.FlowGraph(list(node(a, b)))
    assert graph.feed({a: 1, b: 2}) == 0 and graph.fetch(timeout=LIMIT) == ([2, 1], 0)


# -------------------------------------------------------------------------------- balance, alignment, exceptions

def balanced(*marks: str) -> int:
    data, join = df.FlowData(), add.fnode()
    nodes = [echo.fnode(), echo.fnode()]
    for node, mark in zip(nodes, marks):
        for one in mark.split():
            getattr(node, f"set_balance_{one}")()
    return first_feed(join(*(node(data) for node in nodes)))


def aligned(*limits: object, catches: bool = True, node: df.FlowNode | None = None) -> int:
    def change(graph: df.FlowGraph) -> None:
        if limits:
            graph.set_inputs_align_attrs(*limits)  # type: ignore[arg-type]
        graph.set_exception_catch(catches)

    return first_feed((node or echo.fnode())(df.FlowData()), change=change)


@rules(
    Rule("19", "Both inputs of a join come from balance nodes.", lambda: balanced("scatter", "scatter"), 0),
    Rule("19", "Scatter and gather may meet.", lambda: balanced("scatter", "gather"), 0),
    Rule("19", "Only some inputs of a join come from balance nodes.", lambda: balanced("scatter", ""), FAILED),
    Rule("P7.4", "Scatter and gather on one node: the second call is an error in the log, the first stays.",
         lambda: balanced("scatter gather", "scatter"), 0),
    Rule("14", "Catching exceptions without alignment.", lambda: aligned(), FAILED),
    Rule("14", "Catching exceptions with a cache of 0.", lambda: aligned(0, 100), FAILED),
    Rule("14", "Catching exceptions with a cache of 1.", lambda: aligned(1, 100), 0),
    Rule("14", "Catching exceptions where a function takes queues.",
         lambda: aligned(8, 100, node=from_queue.fnode()), FAILED),
    Rule("8", "A cache of 1024, a timeout of 600000.", lambda: aligned(1024, 600000, True, catches=False), 0),
    Rule("8", "A timeout of 1, a cache of 0.", lambda: aligned(0, 1, catches=False), 0),
    Rule("8", "No timeout.", lambda: aligned(1, -1, catches=False), 0),
)
def test_graphs_with_attributes(started: object, rule: Rule) -> None:
    assert rule.given() == rule.expected  # type: ignore[operator]


@rules(
    Rule("8", "A cache above 1024.", (1025, 100)), Rule("8", "A cache below 0.", (-1, 100)),
    Rule("8", "A timeout of 0.", (1, 0)), Rule("8", "A timeout above 600000.", (1, 600001)),
    Rule("8", "A timeout below -1.", (1, -2)), Rule("P8.2", "A cache that is no number.", ("8", 100)),
    Rule("P8.2", "Dropping that is no bool.", (8, 100, "yes")), Rule("P8.2", "A timeout that is no number.", (8, "1")),
)
def test_alignment_that_cannot_be(started: object, rule: Rule) -> None:
    graph = df.FlowGraph([echo.fnode()(df.FlowData())])
    with pytest.raises(df.DfException) as caught:
        graph.set_inputs_align_attrs(*rule.given)  # type: ignore[misc]
    assert caught.value.error_code == 145000


# ------------------------------------------------------------------------------------------- caches and options

def cached(folder: str, key: str, workplace: Path) -> int:
    (workplace / "cache").mkdir(exist_ok=True)
    options = {"ge.graph_compiler_cache_dir": str(workplace / folder), "ge.graph_key": key}
    return first_feed(echo.fnode()(df.FlowData()), options={name: text for name, text in options.items() if text})


@rules(
    Rule("26", "A key of letters, digits, _ and -.", ("cache", "aZ_9-"), 0),
    Rule("26", "A key of 128 characters.", ("cache", "k" * 128), 0),
    Rule("26", "A key of 129 characters.", ("cache", "k" * 129), FAILED),
    Rule("26", "A key with another character.", ("cache", "a.b"), FAILED),
    Rule("26", "A key with a letter beyond ASCII.", ("cache", "ä"), FAILED),
    Rule("26", "A folder that is not there.", ("nowhere", "key"), FAILED),
    Rule("26", "Without a key there is no cache of graphs.", ("nowhere", ""), 0),
)
def test_caches(started: Path, rule: Rule) -> None:
    assert cached(*rule.given, started) == rule.expected  # type: ignore[misc]


@rules(
    Rule("C9.1", "One pool.", "2048", 2048), Rule("C9.1", "A limit of 0 is none.", "2048:0", 2048),
    Rule("C9.1", "The smallest pool and limit.", "1024:1024", 1024),
    Rule("C9.1", "128 pools, which are one here.", ",".join(["1024"] * 128), 128 * 1024),
    Rule("C9.1", "256 GiB in all.", "274877906944", 274877906944),
    Rule("C9.1", "An empty text.", "", "refused"), Rule("C9.1", "A pool below 1024.", "1023", "refused"),
    Rule("C9.1", "129 pools.", ",".join(["1024"] * 129), "refused"),
    Rule("C9.1", "A limit below 1024.", "2048:1023", "refused"),
    Rule("C9.1", "A limit above the size.", "2048:2049", "refused"),
    Rule("C9.1", "A size above 256 GiB.", "274877906945", "refused"),
    Rule("C9.1", "Together above 256 GiB.", "274877906944,1024", "refused"),
    Rule("C9.1", "Two limits.", "2048:1024:1024", "refused"), Rule("C9.1", "A sign.", "+2048", "refused"),
    Rule("C9.1", "A limit that is no number of 32 bits.", "4294967296:2147483648", "refused"),
)
def test_memory_pools(rule: Rule) -> None:
    if rule.expected == "refused":
        with pytest.raises(ValueError, match="ge.flowGraphMemMaxSize"):
            parse("ge.flowGraphMemMaxSize", rule.given)
    else:
        assert parse("ge.flowGraphMemMaxSize", rule.given) == rule.expected
