"""The work of compiling and planning grows with the graph, and no faster; counted in calls, not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import pytest

import dflow_core as df
from dflow_core.session import DFlowSession


@df.pyflow
def same(x: object) -> object:
    return x


@df.pyflow
def both(x: object, y: object) -> object:
    return x


def chain(size: int) -> df.FlowGraph:
    """Each node reads the one before."""
    value = df.FlowData("x")
    for i in range(size):
        value = same.fnode(f"node{i}")(value)
    return df.FlowGraph([value], {"cache": "0"})


def tree(size: int) -> df.FlowGraph:
    """Nodes that all read one input, joined by twos."""
    x = df.FlowData("x")
    values = [same.fnode(f"leaf{i}")(x) for i in range(size // 2)]
    joined = 0
    while len(values) > 1:
        first, second, *values = values
        values.append(both.fnode(f"join{joined}")(first, second))
        joined += 1
    return df.FlowGraph(values, {"cache": "0"})


def calls_of(work: Callable[[], object]) -> int:
    """Python functions called in this thread."""
    count = 0

    def tally(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(tally)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def _prepare(session: DFlowSession, graph: df.FlowGraph) -> None:
    session.plan(session.compile(graph))


@pytest.mark.parametrize("shape", [chain, tree])
def test_twice_the_nodes_are_at_most_twice_the_work(shape: Callable[[int], df.FlowGraph]) -> None:
    with DFlowSession() as session:
        _prepare(session, shape(4))  # what is loaded and remembered at first
        graphs = [shape(size) for size in (50, 100, 200)]
        small, middle, large = (calls_of(partial(_prepare, session, graph)) for graph in graphs)
    assert large - middle < 2.2 * (middle - small)


def test_a_function_that_has_not_changed_is_packed_once() -> None:
    first, second = same.fnode("first"), same.fnode("second")
    packages = [node.points[0].package for node in (first, second)]
    assert packages[0] is packages[1]


def test_a_function_that_has_changed_is_packed_again() -> None:
    factor = [2]

    @df.pyflow
    def times(x: int) -> int:
        return x * factor[0]

    first = times.fnode().points[0].package
    factor[0] = 3
    second = times.fnode().points[0].package
    assert first != second
