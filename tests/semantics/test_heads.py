"""What travels with messages, line by line: runtime-semantics.md sections 2 (head), 4 (trans_id), 7 (feed) and 13.

Rows run inline; `test_a_row_of_every_kind_runs_in_processes_too` runs the flags
through every node kind again as a deployed graph.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import dflow_core as df
from dflow_core.message import FlowMsg
from dflow_core.udf import MetaRunContext
from tests.semantics.rules import Rule, rules
from tests.system.case_support import MODELS

BIG = 2**64 - 2
EOS, SEG = df.Flag.EOS, df.Flag.SEG


@df.pyflow
def same(value):
    return value


@df.pyflow
def twice(value):
    yield value
    yield value


@df.pyflow(gather=True)
def collect(values):
    return len(values)


@df.pyflow
def both(a, b):
    return a


@df.pyflow
class Counter:
    @df.method()
    def pass_on(self, value):
        return value


class Low:
    @df.proc_wrapper("i0,o0")
    def proc(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        msg, = inputs
        tensor = msg.get_tensor()
        if tensor is None:
            return context.set_output(0, context.alloc_empty_data_msg())
        out = context.alloc_tensor_msg(tensor.shape, tensor.dtype)
        out.get_tensor()[...] = tensor
        return context.set_output(0, out)


class Coded:
    """Sends its input on, with the code it holds if that is negative."""

    @df.proc_wrapper("i0,o0")
    def proc(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        tensor = inputs[0].get_tensor()
        out = context.alloc_tensor_msg(tensor.shape, tensor.dtype)
        out.get_tensor()[...] = tensor
        code = int(tensor.reshape(-1)[0])
        out.set_ret_code(9900000 - code if code < 0 else 0)
        return context.set_output(0, out)


class SeesCodes:
    @df.proc_wrapper("i0,o0")
    def proc(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        return context.set_output(0, np.array([inputs[0].get_ret_code()]))


class Ids:
    """Moves its message to the transaction it names; 0 leaves that to the framework."""

    @df.proc_wrapper("i0,o0")
    def proc(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        out = context.alloc_tensor_msg((1,), np.int64)
        out.get_tensor()[0] = inputs[0].get_transaction_id()
        out.set_transaction_id(0)
        return context.set_output(0, out)


def low(cls: type) -> df.FlowNode:
    return df.FuncProcessPoint(py_func=cls).fnode(1, 1, name=cls.__name__.lower())


def model() -> df.FlowNode:
    return df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx").fnode(2, 1, name="model")


def batched(batch: object) -> Callable[[df.FlowData], df.FlowOutput]:
    node = same.fnode("batched")
    node.map_input(0, node.point, 0, [batch])
    return lambda x: node(x)


def nested(x: df.FlowData) -> df.FlowOutput:
    inner = df.FlowData("inner")
    return df.FlowGraphProcessPoint(df.FlowGraph([same.fnode("in")(inner)], name="g")).fnode(1, 1, name="nested")(x)


KINDS: dict[str, Callable[[df.FlowData], df.FlowOutput]] = {
    "function": lambda x: same.fnode("f")(x),
    "class": lambda x: Counter.fnode().pass_on(x),
    "generator and gather": lambda x: collect.fnode("g")(twice.fnode("t")(x)),
    "low level": lambda x: low(Low)(x),
    "model": lambda x: model()(x, x),
    "time batch until a flag": batched(df.TimeBatch(time_window=-1)),
    "nested graph": nested,
    "join": lambda x: both.fnode("b")(x, same.fnode("s")(x)),
}
TENSOR = np.arange(3, dtype=np.float32)
INFO = df.FeedInfo(start_time=7, end_time=9, flow_flags=int(SEG | EOS), transaction_id=41, user_data=bytes(range(64)))


def check_head(graph: df.FlowGraph, kind: str) -> None:
    graph.feed({"x": TENSOR}, info=INFO)
    value, told = graph.fetch(with_info=True, timeout=30)  # type: ignore[misc]
    assert value is not None, kind
    assert told == INFO, kind


@pytest.mark.parametrize("kind", KINDS)
def test_times_flags_id_and_64_bytes_of_user_data_pass_through_every_node_kind(kind: str) -> None:
    """Section 2: 64 bytes, copied along. Section 13: everything else is inherited; EOS and SEG travel with the head."""
    with df.FlowGraph([KINDS[kind](df.FlowData("x"))], mode="inline") as graph:
        check_head(graph, kind)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "generator and gather"])
def test_an_end_of_sequence_without_data_passes_through_every_node_kind(kind: str) -> None:
    """Section 7.2, 1: an empty feed with EOS puts a null message on every input.

    Section 17: models are not run with null data.
    """
    with df.FlowGraph([KINDS[kind](df.FlowData("x"))], mode="inline") as graph:
        trans_id = graph.feed(None, info=df.FeedInfo(flow_flags=int(EOS)))
        value, told = graph.fetch(with_info=True, timeout=30)  # type: ignore[misc]
        assert (value, told.flow_flags, told.transaction_id) == (None, int(EOS), trans_id)
        check_head(graph, kind)


def test_a_row_of_every_kind_runs_in_processes_too() -> None:
    """Section 2: heads go from process to process as they go within one."""
    x = df.FlowData("x")
    with df.FlowGraph([make(x) for make in KINDS.values()]) as graph:
        graph.feed({"x": TENSOR}, info=INFO)
        values, told = graph.fetch(with_info=True, timeout=30)  # type: ignore[misc]
        assert told == INFO and all(value is not None for value in values)
        graph.feed(None, info=df.FeedInfo(flow_flags=int(EOS)))
        values, told = graph.fetch(with_info=True, timeout=30)  # type: ignore[misc]
        assert told.flow_flags == int(EOS)
        assert [value for kind, value in zip(KINDS, values) if "gather" not in kind] == [None] * (len(KINDS) - 1)


def test_every_output_of_a_transaction_holds_the_same_head() -> None:
    """Section 7.3: what a fetch tells comes from the first output, and all have the same."""
    x = df.FlowData("x")
    with df.FlowGraph([same.fnode("a")(x), both.fnode("b")(x, x)], mode="inline") as graph:
        check_head(graph, "two outputs")


# ------------------------------------------------------------------------------------------ section 4: trans_id

@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "under way together"])
@rules(
    Rule("4", "The first id is 1: the counter starts at 0 and is counted up first.", [0, 0, 0], [1, 2, 3]),
    Rule("4", "Automatic ids go on from a user's.", [7, 0, 0], [7, 8, 9]),
    Rule("4", "The last id may be used again.", [7, 7, 0], [7, 7, 8]),
    Rule("4", "An id below the last one is refused.", [7, 6], [7, "below 7"]),
    Rule("4", "UINT64_MAX is refused.", [2**64 - 1], ["out of range"]),
    Rule("4", "Anything below UINT64_MAX may be used.", [BIG], [BIG]),
    Rule("4", "After UINT64_MAX - 1 there are no automatic ids.", [BIG, 0], [BIG, "no more transaction ids"]),
    Rule("4", "Every one of several equal ids has a result.", [5, 5, 5, 9, 9, 0], [5, 5, 5, 9, 9, 10]),
)
def test_ids(rule: Rule, at_once: bool) -> None:
    with df.FlowGraph([same.fnode("f")(df.FlowData("x"))], mode="inline") as graph:
        fed = []
        for wanted, becomes in zip(rule.given, rule.expected, strict=True):  # type: ignore[call-overload]
            info = df.FeedInfo(transaction_id=wanted)
            if isinstance(becomes, str):
                with pytest.raises(df.UsageError, match=becomes):
                    graph.feed({"x": wanted}, info=info)
                continue
            assert graph.feed({"x": len(fed)}, info=info) == becomes
            fed.append(becomes)
            if not at_once:
                check_results(graph, [(becomes, len(fed) - 1)])
        if at_once:
            check_results(graph, [(trans_id, k) for k, trans_id in enumerate(fed)])


def check_results(graph: df.FlowGraph, expected: list[tuple[int, int]]) -> None:
    found = []
    for _ in expected:
        value, told = graph.fetch(with_info=True, timeout=5)  # type: ignore[misc]
        found.append((told.transaction_id, value))
    assert found == expected


def test_inputs_fed_apart_count_by_themselves_and_meet_by_id() -> None:
    """Section 4: feeding inputs separately yields equal ids for the k-th message of each input."""
    x, y = df.FlowData("x"), df.FlowData("y")
    with df.FlowGraph([both.fnode("b")(x, y)], mode="inline") as graph:
        assert [graph.feed({"x": k}, partial=True) for k in range(3)] == [1, 2, 3]
        assert [graph.feed({"y": k}, partial=True) for k in range(2)] == [1, 2]
        check_results(graph, [(1, 0), (2, 1)])
        assert graph.feed({"x": 9, "y": 9}) == 4
        assert graph.feed({"y": 2}, partial=True, info=df.FeedInfo(transaction_id=4)) == 4


def test_the_same_id_twice_under_way_joins_in_the_order_of_feeding() -> None:
    """Section 4: equal allowed; also where several inputs and outputs are involved."""
    x, y = df.FlowData("x"), df.FlowData("y")
    with df.FlowGraph([both.fnode("b")(x, y), same.fnode("s")(x)], mode="inline") as graph:
        for value in (10, 20, 30):
            graph.feed({"x": value, "y": value}, info=df.FeedInfo(transaction_id=3))
        assert [graph.fetch(timeout=5) for _ in range(3)] == [(10, 10), (20, 20), (30, 30)]
        assert graph.running.client.in_flight == 0


def test_an_output_whose_id_is_0_gets_that_of_the_call() -> None:
    """Section 4: UDF output whose id is 0 gets the processor's current id."""
    with df.FlowGraph([low(Ids)(df.FlowData("x"))], mode="inline") as graph:
        graph.feed({"x": TENSOR}, info=df.FeedInfo(transaction_id=12))
        value, told = graph.fetch(with_info=True, timeout=5)  # type: ignore[misc]
        assert (value.tolist(), told.transaction_id) == ([12], 12)


# --------------------------------------------------------------------------------- section 7: feeding; 13: codes

@rules(
    Rule("7.2", "Empty inputs without EOS fail.", lambda g: g.feed(None), "nothing to feed", "refused"),
    Rule("7.2", "SEG is not EOS.",
         lambda g: g.feed({}, info=df.FeedInfo(flow_flags=int(SEG))), "nothing to feed", "refused"),
    Rule("7.2", "An input that is missing is refused, unless the feed is partial.",
         lambda g: g.feed({"x": 1}), "input", "refused"),
    Rule("7.2", "What is no input is refused.", lambda g: g.feed({"x": 1, "y": 2, "z": 3}), "z", "refused"),
    Rule("2", "User data has 64 bytes.",
         lambda g: g.feed({"x": 1, "y": 2}, info=df.FeedInfo(user_data=b"x" * 65)), "65 b", "refused"),
    Rule("7.1", "A limit below 0 is refused (-1 stands for none in `dataflow`).",
         lambda g: g.feed({"x": 1, "y": 2}, timeout=-1), "0 seconds or more", "refused"),
)
def test_feeds_that_are_refused_leave_nothing_behind(rule: Rule) -> None:
    x, y = df.FlowData("x"), df.FlowData("y")
    with df.FlowGraph([both.fnode("b")(x, y)], mode="inline") as graph:
        with pytest.raises(df.DflowError, match=str(rule.expected)):
            rule.given(graph)  # type: ignore[operator]
        assert (graph.counters.fed, graph.running.client.in_flight) == (0, 0)
        assert graph(1, 2) == 1


@rules(
    Rule("13", "Fetch gives the code of a message.", [], 9900003),
    Rule("13", "A function of values is not called with a code.", [lambda: same.fnode("f")], 9900003),
    Rule("13", "Functions that get messages see the code, and deal with it.", [lambda: low(SeesCodes)], [9900003]),
    Rule("13", "New messages have the code 0.", [lambda: low(SeesCodes), lambda: same.fnode("f")], [9900003]),
    Rule("13", "A graph in a graph is its nodes.", [nested], 9900003),
)
def test_codes(rule: Rule) -> None:
    end = low(Coded)(df.FlowData("x"))
    for make in rule.given:  # type: ignore[attr-defined]
        end = make(end) if make is nested else make()(end)
    with df.FlowGraph([end], mode="inline") as graph:
        if isinstance(rule.expected, int):
            with pytest.raises(df.NodeError) as caught:
                graph(np.array([-3.0], np.float32))
            assert (caught.value.ret_code, caught.value.trans_id) == (rule.expected, 1)
        else:
            assert np.asarray(graph(np.array([-3.0], np.float32))).tolist() == rule.expected
        assert graph(np.array([4.0], np.float32)) is not None  # the next one is good


def test_a_model_passes_a_code_on_without_running() -> None:
    """Section 17: for inputs in order, ret_code other than 0: all outputs are empty with that code."""
    x, y = df.FlowData("x"), df.FlowData("y")
    with df.FlowGraph([low(SeesCodes)(model()(low(Coded)(x), y))], mode="inline") as graph:
        assert graph(np.full(3, -3, np.float32), TENSOR).tolist() == [9900003]  # type: ignore[attr-defined]
        assert graph(TENSOR, TENSOR).tolist() == [0]  # type: ignore[attr-defined]


def test_null_data_is_none_at_its_place() -> None:
    """Section 13: null data has no tensor; positions never shift."""
    x = df.FlowData("x")
    nothing = df.pyflow(lambda value: None)
    with df.FlowGraph([nothing.fnode("n")(x), same.fnode("f")(x)], mode="inline") as graph:
        assert graph(5) == (None, 5)
