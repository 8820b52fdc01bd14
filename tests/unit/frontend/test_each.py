"""`map_each`: splitting, steps for each element, and gathering in order."""

from __future__ import annotations

import numpy as np
import pytest

import dflow_core as df


@df.pyflow
def double(value):
    if isinstance(value, str):
        raise ValueError(f"{value} is no number")
    return value * 2


@df.pyflow
def add(left, right):
    return left + right


@df.pyflow(choice_output=lambda value: value % 2 == 0)
def even(value):
    return value


@pytest.fixture(autouse=True)
def closed_session():
    yield
    df.finalize()


def run(output: df.FlowOutput) -> df.FlowGraph:
    return df.FlowGraph([output], mode="inline")


def test_elements_go_through_the_steps_and_come_back_in_order():
    x = df.FlowData("x")
    steps = (double, double.fnode("again"), lambda part: add.fnode()(part, double.fnode()(part)))
    with run(df.map_each(x, *steps)) as graph:
        assert graph([1, 2, 3]) == [12, 24, 36]
        assert graph([]) == []
        assert [row.tolist() for row in graph(np.arange(4).reshape(2, 2))] == [[0, 12], [24, 36]]
        assert list(graph.map([[1], [], [2, 3]])) == [[12], [], [24, 36]]


def test_an_element_that_fails_ends_its_transaction_only():
    with run(df.map_each(df.FlowData("x"), double)) as graph:
        with pytest.raises(df.NodeError, match="two is no number") as caught:
            graph([1, "two", 3])
        assert caught.value.node == "double"
        assert graph([1]) == [2]


def test_elements_that_a_step_leaves_out_are_missing():
    with run(df.map_each(df.FlowData("x"), even, double)) as graph:
        assert graph([1, 2, 3, 4]) == [4, 8]
        assert graph([1, 3]) == []


def test_elements_of_elements_are_split_twice_and_gathered_once():
    from dflow_core.frontend.each import split_items

    with run(df.map_each(df.FlowData("x"), split_items, double, name="pages")) as graph:
        assert graph([[1], [], [2, 3]]) == [2, 4, 6]
        assert [node.name for node in graph.nodes] == ["pages_split", "split", "double", "pages_gather"]
    with pytest.raises(df.UsageError, match="gathers all parts of a transaction, not those of one element"):
        df.map_each(df.FlowData("x"), lambda row: df.map_each(row, double))


def test_own_functions_split_and_gather():
    @df.pyflow
    def letters(text: str):
        yield from enumerate(text)

    @df.pyflow
    def upper(pair):
        return pair[1].upper()

    @df.pyflow(gather=True)
    def joined(parts):
        return "".join(parts)

    with run(df.map_each(df.FlowData("x"), upper, split=letters, gather=joined)) as graph:
        assert graph("abc") == "ABC"


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([add], "step 1: expected a node with one input and one output, got 2 inputs"),
        ([double, 3], "step 2: expected a node or a function made with pyflow, got 3"),
        ([lambda part: None], "expected the function to give one output of a node, got None"),
        ([int], "expected a node or a function made with pyflow"),
    ],
)
def test_what_is_no_step_is_refused(steps, told):
    with pytest.raises(df.UsageError, match=told):
        df.map_each(df.FlowData("x"), *steps)
    with pytest.raises(df.UsageError, match="made with pyflow as split"):
        df.map_each(df.FlowData("x"), split=len)  # type: ignore[arg-type]
