"""Functions that take from queues, aligned fetches, exceptions, and what is lost, as scripts see them.

Sections 4, 5, 8, 11, 14, 19 and 25 of the notes on the run time; 8, 10 and 12 of those on the interface.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from dflow_core.testing.waiting import wait_until
from tests.semantics.rules import Rule, rules, shows

FAILED = 0xFFFFFFFF
LIMIT = 20000


@df.pyflow(stream_input="Queue")
def each(numbers):
    while True:
        yield numbers.get() * 10


@df.pyflow(stream_input="Queue")
def by_two(numbers):
    return numbers.get() + numbers.get()


@df.pyflow(stream_input="Queue")
def merged(a, b):
    """Three of the first for each of the second."""
    return [a.get() for _ in range(3)] + [b.get()]


@df.pyflow(stream_input="Queue", num_returns=2)
def sorted_out(numbers):
    number = numbers.get()
    yield number, -number


@df.pyflow(stream_input="Queue", choice_output=lambda item: item % 2)
def odd_ones(numbers):
    return numbers.get()


@df.pyflow
class Mixed:
    """A function that takes values and one that takes from a queue, in one node."""

    @df.method()
    def plain(self, x):
        return -x

    @df.method(stream_input="Queue")
    def taking(self, numbers):
        return numbers.get() + numbers.get()


@dataclass
class Streams:
    graph: df.FlowGraph
    inputs: dict[str, df.FlowData]
    ports: dict[str, list[int]]


@pytest.fixture(scope="module")
def streams(started: object) -> Iterator[Streams]:
    inputs = {name: df.FlowData(name=name) for name in ("each", "two", "a", "b", "sorted", "odd", "plain", "taking")}
    mixed = Mixed.fnode()
    made = {
        "each": each.fnode()(inputs["each"]), "two": by_two.fnode()(inputs["two"]),
        "merged": merged.fnode()(inputs["a"], inputs["b"]), "sorted": sorted_out.fnode()(inputs["sorted"]),
        "odd": odd_ones.fnode()(inputs["odd"]), "plain": mixed.plain(inputs["plain"]),
        "taking": mixed.taking(inputs["taking"]),
    }
    outputs: list[df.FlowOutput] = []
    ports: dict[str, list[int]] = {}
    for name, output in made.items():
        own = list(output) if isinstance(output, tuple) else [output]
        ports[name] = list(range(len(outputs), len(outputs) + len(own)))
        outputs += own
    yield Streams(df.FlowGraph(outputs), inputs, ports)


@rules(
    Rule("11", "A function that takes from a queue is called at once, and takes what comes.",
         ("each", {"each": [1, 2, 3]}), [[10, 20, 30]]),
    Rule("11", "It is called again when it returned.", ("two", {"two": [1, 2, 3, 4]}), [[3, 7]]),
    Rule("11", "Its inputs are not aligned: it takes as many of each as it wants.",
         ("merged", {"a": [1, 2, 3, 4, 5, 6], "b": [7, 8]}), [[[1, 2, 3, 7], [4, 5, 6, 8]]]),
    Rule("P10.4", "It may yield, for several outputs.", ("sorted", {"sorted": [1, 2]}), [[1, 2], [-1, -2]]),
    Rule("P10.1", "choice_output counts for it.", ("odd", {"odd": [1, 2, 3]}), [[1, 3]]),
    Rule("11", "A function of values in the same node goes on by itself.", ("plain", {"plain": [1, 2]}), [[-1, -2]]),
    Rule("11", "Functions of both kinds in one node.", ("taking", {"taking": [1, 2]}), [[3]]),
)
def test_functions_that_take_from_queues(streams: Streams, rule: Rule) -> None:
    name, fed = rule.given  # type: ignore[misc]
    for data, values in fed.items():
        for value in values:
            assert streams.graph.feed({streams.inputs[data]: value}, partial_inputs=True) == 0
    expected = rule.expected
    assert isinstance(expected, list)
    for port, line in zip(streams.ports[name], expected):
        assert [streams.graph.fetch([port], LIMIT) for _ in line] == [([value], 0) for value in line]
        assert streams.graph.fetch([port], 0) == ([], 207013)


@shows(
    Rule("4", "Outputs of a function that takes from queues have the ids 1, 2, 3 and so on.",
         here="that of the message taken last", differs="outputs of functions that take from queues count 1, 2, 3"),
    Rule("11", "It inherits neither times nor user data.", here="those of the message taken last",
         differs="outputs of functions that take from queues count 1, 2, 3"),
)
def test_heads_of_what_streams_send(streams: Streams) -> None:
    x = df.FlowData()
    graph = df.FlowGraph([each_array.fnode()(x)])
    for number in range(3):
        assert graph.feed_data({x: [number]}, df.FlowInfo(5, 6, transaction_id=10 * number + 10)) == 0
    found = [graph.fetch_data(timeout=LIMIT) for _ in range(3)]
    assert [(tensors[0].numpy().tolist(), code) for tensors, _, code in found] == [([0], 0), ([1], 0), ([2], 0)]
    assert [info.transaction_id for _, info, _ in found] == [10, 20, 30]
    assert {(info.start_time, info.end_time) for _, info, _ in found} == {(5, 6)}


@df.pyflow(stream_input="Queue")
def each_array(numbers):
    return df.Tensor(numbers.get().numpy())


# ------------------------------------------------------------------------------------------------------ alignment

@df.pyflow
def echo(x):
    return x


@df.pyflow(choice_output=lambda item: item is not None)
def small(x):
    return x if x.numpy() < 10 else None


def aligned(timeout: int, drop: bool = False, cache: int = 8) -> tuple[df.FlowGraph, df.FlowData, df.FlowData]:
    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    graph = df.FlowGraph([small.fnode()(a), echo.fnode()(b), echo.fnode()(b)])
    graph.set_inputs_align_attrs(cache, timeout, drop)
    return graph, a, b


def taken(graph: df.FlowGraph, indexes: list[int] | None = None, timeout: int = LIMIT) -> object:
    tensors, info, code = graph.fetch_data(indexes, timeout)
    return code or [tensor.numpy().item() for tensor in tensors]


@shows(
    Rule("8", "A set that is complete.", here="its tensors, in the order that was asked for"),
    Rule("8", "The branch of an output is not taken: the set is incomplete.", here="([], info, 345104)"),
    Rule("8", "The cache lives across calls: what came early waits.", here="the same"),
    Rule("P8.4", "fetch is not aligned.", here="each output by itself"),
    Rule("8", "Sets of indexes that overlap are FAILED.", here="each output has its own line",
         differs="aligned fetches must not ask for sets of outputs that overlap (FAILED)"),
    Rule("8", "A fetch of aligned outputs that times out takes nothing.", here="545601, then the whole set"),
)
def test_aligned_fetches(started: object) -> None:
    graph, a, b = aligned(-1)
    assert graph.feed_data({a: 1, b: 2}) == 0 and taken(graph) == [1, 2, 2]
    assert graph.feed_data({a: 1, b: 2}) == 0 and taken(graph, [2, 0, 1]) == [2, 1, 2]
    assert graph.feed_data({a: 1, b: 2}) == 0 and [taken(graph, [0]), taken(graph, [1, 2])] == [[1], [2, 2]]
    assert graph.feed_data({a: 11, b: 2}) == 0 and taken(graph) == 345104
    assert graph.feed_data({b: 5}, partial_inputs=True) == 0
    assert (taken(graph, timeout=50), taken(graph, timeout=0)) == (545601, 207013)
    assert graph.feed_data({a: 4}, partial_inputs=True) == 0
    assert taken(graph) == [4, 5, 5]
    assert graph.feed_data({a: 1, b: 2}) == 0
    found, code = graph.fetch([1], LIMIT)
    assert ([one.numpy().item() for one in found], code) == ([2], 0)


@rules(
    Rule("8", "A set that is older than its timeout is given out.", False, 345104),
    Rule("8", "With dropping it is gone without a word.", True, 545601),
)
def test_aligned_sets_that_expire(started: object, rule: Rule) -> None:
    graph, a, b = aligned(60, bool(rule.given))
    assert graph.feed_data({b: 9}, partial_inputs=True) == 0
    assert taken(graph, timeout=300 if rule.given else LIMIT) == rule.expected

    def comes_whole() -> bool:
        """The next set, once it is quick enough."""
        assert graph.feed_data({a: 1, b: 2}) == 0
        return taken(graph, timeout=1000) == [1, 2, 2]

    wait_until(comes_whole)


@shows(Rule("8", "More sets than the cache holds: the smallest id is given out.", here="345104 for id 1"))
def test_more_sets_than_the_cache_holds(started: object) -> None:
    graph, a, b = aligned(-1, cache=2)
    for number in range(3):
        assert graph.feed_data({b: number}, partial_inputs=True) == 0
    tensors, info, code = graph.fetch_data(timeout=LIMIT)
    assert (tensors, info.transaction_id, code) == ([], 1, 345104)
    assert graph.feed_data({a: 7}, partial_inputs=True, flow_info=df.FlowInfo(transaction_id=2)) == 0
    assert taken(graph) == [7, 1, 1]


# ---------------------------------------------------------------------------------------- exceptions, and losses

class Raises:
    @ff.proc_wrapper("i0,o0")
    def work(self, context, msgs):
        if not msgs:
            return 0
        number = int(msgs[0].get_tensor().numpy()[0])
        if number < 0:
            context.raise_exception(number, 77)
        return context.set_output(0, msgs[0])


@shows(
    Rule("14", "A function raises: the next aligned fetch returns 345103 and the head of what it was working on.",
         here="([], info, 345103)"),
    Rule("14", "A code of the user's may be any of 32 bits.", here="also below 0"),
    Rule("14", "Other transactions come.", here="the same"),
)
def test_exceptions(started: object) -> None:
    x, node = df.FlowData(), df.FlowNode(1, 1)
    node.add_process_point(df.FuncProcessPoint(py_func=Raises))
    graph = df.FlowGraph([node(x)])
    graph.set_inputs_align_attrs(8, 10000)
    graph.set_exception_catch(True)
    info = df.FlowInfo(1, 2, 2)
    info.set_user_data(b"who")
    for value in (-5, 6, -(2**31)):
        assert graph.feed_data({x: np.array([value])}, info) == 0
    codes = []
    for _ in range(3):
        tensors, told, code = graph.fetch_data(timeout=LIMIT)
        codes.append((told.transaction_id, len(tensors), code))
        if code:
            assert (told.start_time, told.end_time, told.flow_flags, bytes(told.user_data[:3])) == (1, 2, 2, b"who")
    assert sorted(codes) == [(1, 0, 345103), (2, 1, 0), (3, 0, 345103)]


@df.pyflow
def mortal(x):
    if x == -1:
        os._exit(3)
    return x


@shows(
    Rule("25", "A process that dies makes every feed and fetch FAILED.", here="4294967295 for what it held, then 0",
         differs="after a loss, feed and fetch return 545602 while the graph is rebuilt and 345102 afterwards"),
    Rule("25", "Lost instances are not created anew.", here="it is started again"),
)
def test_a_process_that_dies(started: object) -> None:
    x = df.FlowData()
    graph = df.FlowGraph([mortal.fnode()(x), echo.fnode()(x)])
    for value in (1, -1):
        assert graph.feed({x: value}) == 0
    assert graph.fetch(timeout=LIMIT) == ([1, 1], 0)
    assert graph.fetch_data([0], LIMIT)[2] == FAILED
    assert graph.fetch([1], LIMIT) == ([-1], 0)
    assert graph.feed({x: 2}, timeout=LIMIT) == 0
    assert graph.fetch(timeout=LIMIT) == ([2, 2], 0)
