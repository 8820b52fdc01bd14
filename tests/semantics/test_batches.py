"""Batches by time and by count, as sections 15 and 16 of the notes on the run time have them, and 14 on the interface.

A row feeds messages `(start, end, flags, value)`, each a float32 array of one number, and says what comes: batches
`(values, start, end, flags)`, None for a null message, or "error" for a transaction that ends with one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import dataflow
import dflow_core as df
from tests.semantics.rules import Rule, rules, shows

EOS, SEG = 1, 2
FAILED = 0xFFFFFFFF
T = 0.15
RESET = "a message that does not fit into a batch is an error, and what was collected is lost"
FLUSH = "EOS means nothing to batches by count"


@df.pyflow
def same(value):
    return value


def batched(batch: object, mode: str = "inline") -> df.FlowGraph:
    node = same.fnode("batched")
    node.map_input(0, node.point, 0, [batch])
    return df.FlowGraph([node(df.FlowData("x"))], mode=mode)


def array(value: object) -> np.ndarray | None:
    return None if value is None else np.asarray([value] if isinstance(value, int) else value, np.float32)


def feed(graph: df.FlowGraph, messages: Sequence[tuple[int, int, int, object]]) -> None:
    for start, end, flags, value in messages:
        info = df.FeedInfo(start_time=start, end_time=end, flow_flags=flags)
        graph.feed(None if value is None else {"x": array(value)}, info=info)


def results(graph: df.FlowGraph, timeout: float = 0.0) -> list[object]:
    """Everything that comes."""
    found: list[object] = []
    while True:
        try:
            limit = timeout if graph.running.client.in_flight else 0.0
            value, info = graph.fetch(timeout=limit, with_info=True)  # type: ignore[misc]
        except df.WaitTimeoutError:
            return found
        except df.DflowError:
            found.append("error")
            continue
        head = info.start_time, info.end_time, info.flow_flags
        found.append((None, head[2]) if value is None else (value.tolist(), *head))


def rows(*values: float) -> list[list[float]]:
    return [[value] for value in values]


W10, DROP = df.TimeBatch(10), df.TimeBatch(10, drop_remainder=True)
FLAG = df.TimeBatch(-1)
JOIN = df.TimeBatch(10, batch_dim=0)


@rules(
    Rule("15", "Span below the window: wait.", (W10, [(0, 4, 0, 1), (4, 9, 0, 2)]), []),
    Rule("15", "Span equal to the window: send; start of the first, end of the last.",
         (W10, [(0, 4, 0, 1), (4, 10, 0, 2)]), [(rows(1, 2), 0, 10, 0)]),
    Rule("15", "One message that spans the window is a batch.", (W10, [(5, 15, 0, 1)]), [(rows(1), 5, 15, 0)]),
    Rule("15", "Gaps between messages count.", (W10, [(0, 1, 0, 1), (9, 10, 0, 2)]), [(rows(1, 2), 0, 10, 0)]),
    Rule("15", "Span above the window: an error, and the cache is lost.", (W10, [(0, 4, 0, 1), (4, 11, 0, 2)]),
         [(rows(1), 0, 4, 0), "error"], "the batch before it is sent, the message ends with an error", differs=RESET),
    Rule("15", "One message that is longer than the window.", (W10, [(0, 11, 0, 1), (11, 21, 0, 2)]),
         ["error", (rows(2), 11, 21, 0)]),
    Rule("15", "SEG ends a batch that is too short.", (W10, [(0, 4, SEG, 1)]), [(rows(1), 0, 4, SEG)]),
    Rule("15", "SEG with drop_remainder: dropped without a word.", (DROP, [(0, 4, SEG, 1), (4, 14, 0, 2)]),
         [(rows(2), 4, 14, 0)]),
    Rule("15", "EOS with drop_remainder: a null message with EOS only.", (DROP, [(0, 4, EOS, 1)]), [(None, EOS)]),
    Rule("15", "EOS without drop_remainder: the batch, whose head has EOS.", (W10, [(0, 4, 0, 1), (4, 6, EOS, 2)]),
         [(rows(1, 2), 0, 6, EOS)]),
    Rule("15", "A whole window with EOS and drop_remainder is sent.", (DROP, [(0, 10, EOS, 1)]),
         [(rows(1), 0, 10, EOS)]),
    Rule("15", "Window -1: EOS or SEG alone end a batch.", (FLAG, [(0, 40, 0, 1), (40, 90, SEG, 2), (90, 91, EOS, 3)]),
         [(rows(1, 2), 0, 90, SEG), (rows(3), 90, 91, EOS)]),
    Rule("15", "Window -1 and drop_remainder: there is no remainder.",
         (df.TimeBatch(-1, drop_remainder=True), [(0, 1, SEG, 1)]), [(rows(1), 0, 1, SEG)]),
    Rule("15", "Null with EOS and nothing collected: one null message with EOS.", (W10, [(0, 0, EOS, None)]),
         [(None, EOS)]),
    Rule("15", "Null with EOS ends the batch; its flags are in the head.", (W10, [(0, 4, 0, 1), (0, 0, EOS, None)]),
         [(rows(1), 0, 4, EOS)]),
    Rule("15", "A start after its end.", (W10, [(5, 4, 0, 1), (0, 10, 0, 2)]), ["error", (rows(2), 0, 10, 0)]),
    Rule("15", "A start before the last end.", (W10, [(0, 5, 0, 1), (4, 6, 0, 2), (5, 10, 0, 3)]),
         ["error", (rows(1, 3), 0, 10, 0)], "the message ends with an error, the batch goes on", differs=RESET),
    Rule("15", "A message without elements.", (W10, [(0, 10, 0, [])]), ["error"]),
    Rule("15", "Another shape, with batch_dim -1.", (W10, [(0, 5, 0, 1), (5, 6, 0, [1, 2]), (6, 10, 0, 3)]),
         ["error", (rows(1, 3), 0, 10, 0)], "the message ends with an error, the batch goes on", differs=RESET),
    Rule("15", "batch_dim 0: joined along it; sizes along it may differ.", (JOIN, [(0, 5, 0, 1), (5, 10, 0, [2, 3])]),
         [([1, 2, 3], 0, 10, 0)]),
    Rule("15", "batch_dim beyond the rank.", (df.TimeBatch(10, batch_dim=1), [(0, 10, 0, 1)]), ["error"]),
    Rule("15", "After a batch everything begins anew.", (W10, [(0, 10, 0, 1), (3, 13, 0, 2)]),
         [(rows(1), 0, 10, 0), (rows(2), 3, 13, 0)]),
    Rule("15", "Times of 64 bits.", (W10, [(2**64 - 11, 2**64 - 1, 0, 1)]), [(rows(1), 2**64 - 11, 2**64 - 1, 0)]),
)
def test_batches_by_time(rule: Rule) -> None:
    batch, messages = rule.given  # type: ignore[misc]
    with batched(batch) as graph:
        feed(graph, messages)
        assert results(graph) == rule.expected


def test_a_batch_by_time_joins_along_an_inner_dimension() -> None:
    """Section 15: joined along a dimension, loops over those before it."""
    with batched(df.TimeBatch(10, batch_dim=1)) as graph:
        first, second = np.arange(4).reshape(2, 2), np.arange(6).reshape(2, 3) + 10
        feed(graph, [(0, 5, 0, first), (5, 10, 0, second)])
        assert results(graph) == [(np.concatenate([first, second], 1).tolist(), 0, 10, 0)]


def numbers(*values: object) -> list[tuple[int, int, int, object]]:
    return [(0, 0, 0, value) for value in values]


def sent(*batches: Sequence[float]) -> list[object]:
    return [(rows(*batch), 0, 0, 0) for batch in batches]


@rules(
    Rule("16", "batch_size messages are stacked.", (df.CountBatch(3), numbers(1, 2, 3, 4, 5, 6, 7)),
         sent([1, 2, 3], [4, 5, 6])),
    Rule("16", "batch_size 1: each message is a batch.", (df.CountBatch(1), numbers(1, 2)), sent([1], [2])),
    Rule("16", "slide_stride s: the first s leave, the rest stays.", (df.CountBatch(3, 1), numbers(1, 2, 3, 4, 5)),
         sent([1, 2, 3], [2, 3, 4], [3, 4, 5])),
    Rule("16", "slide_stride equal to batch_size is none.", (df.CountBatch(2, 2), numbers(1, 2, 3, 4)),
         sent([1, 2], [3, 4])),
    Rule("16", "Padding without a timeout does nothing.", (df.CountBatch(2, padding=True), numbers(1, 2, 3)),
         sent([1, 2])),
    Rule("16", "Another shape: an error, and the cache is lost.", (df.CountBatch(2), numbers(1, [2, 3], 4)),
         ["error", *sent([1, 4])], "the message ends with an error, the batch goes on", differs=RESET),
    Rule("16", "SEG is ignored.", (df.CountBatch(2), [(0, 0, SEG, 1), (0, 0, 0, 2)]), sent([1, 2])),
    Rule("16", "EOS is ignored.", (df.CountBatch(3), [(0, 0, 0, 1), (0, 0, EOS, 2)]), [(rows(1, 2), 0, 0, EOS)],
         "EOS sends what is left", differs=FLUSH),
    Rule("16", "Null data is an error.", (df.CountBatch(2), [(0, 0, 0, 1), (0, 0, EOS, None)]),
         [(rows(1), 0, 0, 0), (None, EOS)], "the null message that EOS must be sends what is left", differs=FLUSH),
    Rule("16", "Times are those of the newest message.", (df.CountBatch(2), [(1, 2, 0, 1), (3, 4, 0, 2)]),
         [(rows(1, 2), 3, 4, 0)]),
)
def test_batches_by_count(rule: Rule) -> None:
    batch, messages = rule.given  # type: ignore[misc]
    with batched(batch) as graph:
        feed(graph, messages)
        assert results(graph) == rule.expected


@rules(
    Rule("16", "A timeout sends what is there, a timeout after its first message.",
         (df.CountBatch(3, timeout=T), numbers(1, 2)), sent([1, 2])),
    Rule("16", "With padding it is filled up with zeros.", (df.CountBatch(3, timeout=T, padding=True), numbers(1)),
         sent([1, 0, 0])),
    Rule("16", "What is left of a stride is sent again each timeout, until nothing is left.",
         (df.CountBatch(5, 2, T, True), numbers(1, 2, 3, 4, 5, 6, 7)),
         sent([1, 2, 3, 4, 5], [3, 4, 5, 6, 7], [5, 6, 7, 0, 0], [7, 0, 0, 0, 0])),
    Rule("16", "Without padding too.", (df.CountBatch(4, 3, T), numbers(1, 2, 3, 4)), sent([1, 2, 3, 4], [4])),
    Rule("16", "Nothing collected: nothing is sent.", (df.CountBatch(2, timeout=T), numbers(1, 2)), sent([1, 2])),
)
def test_batches_by_count_with_a_timeout(rule: Rule) -> None:
    batch, messages = rule.given  # type: ignore[misc]
    with batched(batch) as graph:
        feed(graph, messages)
        assert results(graph, 6 * T) == rule.expected
        assert graph.running.client.in_flight == 0


# -------------------------------------------------------------------------------------------- what is refused, where

def built(attr: object, catches: bool = False, twice: bool = False) -> int:
    """The code of the first feed of a graph whose input has a batch."""
    data, node = dataflow.FlowData(), dataflow.FlowNode(1, 1)
    point = dataflow.FuncProcessPoint(py_func=dataflow.pyflow(plain))
    node.add_process_point(point)
    node.map_input(0, point, 0, [attr, attr] if twice else [attr])
    graph = dataflow.FlowGraph([node(data)], {"ge.runFlag": "0"})
    if catches:
        graph.set_inputs_align_attrs(8, 100)
        graph.set_exception_catch(True)
    return graph.feed_data({data: 1})


def plain(value):
    return value


@rules(
    Rule("P14", "time_window must be -1 or above 0.", lambda: built(dataflow.TimeBatch(0)), FAILED),
    Rule("P14", "A time_window below -1.", lambda: built(dataflow.TimeBatch(-2)), FAILED),
    Rule("P14", "The smallest window.", lambda: built(dataflow.TimeBatch(1)), 0),
    Rule("P14", "batch_dim below -1.", lambda: built(dataflow.TimeBatch(1, -2)), FAILED),
    Rule("P14", "batch_size 0.", lambda: built(dataflow.CountBatch(0)), FAILED),
    Rule("P14", "batch_size below 0.", lambda: built(dataflow.CountBatch(-1)), FAILED),
    Rule("P14", "slide_stride above batch_size.", lambda: built(dataflow.CountBatch(2, 3)), FAILED),
    Rule("P14", "slide_stride of batch_size.", lambda: built(dataflow.CountBatch(2, 2)), 0),
    Rule("P14", "slide_stride below 0.", lambda: built(dataflow.CountBatch(2, -1)), FAILED),
    Rule("P7.8", "timeout below 0.", lambda: built(dataflow.CountBatch(2, timeout=-1)), FAILED),
    Rule("P7.8", "timeout of UINT32_MAX - 1.", lambda: built(dataflow.CountBatch(2, timeout=2**32 - 2)), 0),
    Rule("P7.8", "timeout of UINT32_MAX.", lambda: built(dataflow.CountBatch(2, timeout=2**32 - 1)), FAILED),
    Rule("14", "A batch where exceptions are caught.", lambda: built(dataflow.CountBatch(2), catches=True), FAILED),
    Rule("19", "Two batches on one input.", lambda: built(dataflow.CountBatch(2), twice=True), FAILED),
)
def test_batches_that_cannot_be(started: object, rule: Rule) -> None:
    assert rule.given() == rule.expected  # type: ignore[operator]


@rules(
    Rule("P7.8", "padding that is no bool.", lambda: dataflow.CountBatch(2, padding=300)),
    Rule("P7.8", "A window with a fraction.", lambda: dataflow.TimeBatch(1.5)),
    Rule("P7.8", "A size that is a text.", lambda: dataflow.CountBatch("2")),
)
def test_batches_of_wrong_types(rule: Rule) -> None:
    with pytest.raises(dataflow.DfException) as caught:
        rule.given()  # type: ignore[operator]
    assert caught.value.error_code == 145000


@shows(
    Rule("19", "A batch makes the graph n-mapping: ids of the user's count.", here="the id of the newest message"),
    Rule("19", "Only the input that has the attribute is batched.", here="the other one comes as it is"),
    Rule("P14", "timeout is in milliseconds.", here="200 is 0.2 s"),
)
def test_batches_of_scripts(started: object) -> None:
    a, b = dataflow.FlowData(name="a"), dataflow.FlowData(name="b")
    node, point = dataflow.FlowNode(1, 1), dataflow.FuncProcessPoint(py_func=dataflow.pyflow(plain))
    node.add_process_point(point)
    node.map_input(0, point, 0, [dataflow.CountBatch(3, timeout=200)])
    graph = dataflow.FlowGraph([node(a), dataflow.pyflow(plain).fnode()(b)])
    for number in (10, 20):
        assert graph.feed_data({a: [number], b: [number]}, dataflow.FlowInfo(transaction_id=number)) == 0
    tensors, info, code = graph.fetch_data([0], 20000)
    assert (tensors[0].numpy().tolist(), info.transaction_id, code) == ([[10], [20]], 20, 0)
    assert [graph.fetch_data([1], 20000)[0][0].numpy().tolist() for _ in range(2)] == [[10], [20]]
