"""Alignment and exceptions, line by line: runtime-semantics.md sections 5, 8, 10 and 14, through whole graphs.

Rows run inline; the state machines behind them have tests with a clock of their own
(`test_limited_aligner`, `test_aligned_table`, `test_exceptions`), C++ functions theirs (`test_alignment` of pne_udf).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.message import FlowMsg
from dflow_core.udf import MetaRunContext
from tests.semantics.rules import Rule, rules
from tests.system.case_support import wait_until

MODELS = Path(__file__).resolve().parent.parent / "data" / "models"
SOON = 0.02
"""Seconds until incomplete sets are given up: every test waits for that."""


@df.pyflow
def same(value):
    return value


@df.pyflow(choice_output=lambda value: value is not None)
def unless_seven(value):
    return None if value % 7 == 0 else value


@df.pyflow
def fails_at_five(value):
    if value == 5:
        raise ValueError("five")
    return value


@df.pyflow
def both(a, b):
    return a, b


class Codes:
    """Answers with the codes of its inputs."""

    @df.proc_wrapper("i0,i1,o0")
    def proc(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        return context.set_output(0, np.array([msg.get_ret_code() for msg in inputs]))


def joined(
    drop: bool, *, cache: int = 8, timeout: float | None = SOON, mode: str = "inline", join=None,
    a: Callable[[df.FlowData], df.FlowOutput] = lambda x: same.fnode("a")(x),
) -> df.FlowGraph:
    """A graph whose inputs x and y meet in a node `join`; x goes through a node before."""
    x, y = df.FlowData("x"), df.FlowData("y")
    node = both.fnode("join") if join is None else join
    graph = df.FlowGraph([node(a(x), y)], mode=mode)
    graph.set_inputs_align_attrs(cache, timeout, drop)
    return graph


def check_settled(graph: df.FlowGraph) -> None:
    """Everything has ended, once."""
    wait_until(lambda: graph.running.client.in_flight == 0)
    counters = graph.counters
    assert counters.fed == counters.delivered + counters.failed + counters.dropped


def outcome(graph: df.FlowGraph) -> object:
    """What comes next: a value, or the type of the error."""
    try:
        return graph.fetch(timeout=5)
    except df.DflowError as error:
        return type(error)


# ------------------------------------------------------------- the four outcomes of a transaction that is not complete

OUTCOMES = [
    Rule("8", "A set that is complete comes out.", {"x": 1, "y": 1}, (1, 1)),
    Rule("10", "A branch that is not taken drops its transaction.", {"x": 7, "y": 1}, df.DroppedError),
    Rule("10", "What fails before the join ends its transaction.", {"x": 5, "y": 1}, df.NodeError),
    Rule("10", "What is not fed in time is missing.", {"x": 1}, df.MissingError),
]


@pytest.mark.parametrize("mode", ["inline", "process"])
def test_branch_not_taken_failed_missing_and_late_are_four_things(mode: str) -> None:
    """Section 8: sets that stay incomplete are told apart.

    BC-020: no hang; each incomplete transaction ends with what it is, and none disturbs another.
    """
    slow = df.pyflow(lambda value: time.sleep(30 * SOON) if value == 99 else None)
    x, y = df.FlowData("x"), df.FlowData("y")
    taken = fails_at_five.fnode("fails")(unless_seven.fnode("unless")(x))
    graph = df.FlowGraph([both.fnode("join")(taken, y), slow.fnode("slow")(y)], mode=mode)
    graph.set_inputs_align_attrs(8, 10 * SOON, True)
    with graph:
        for rule in OUTCOMES[:3]:
            fed, expected = rule.given, rule.expected
            if isinstance(expected, tuple):
                assert graph(*fed.values(), timeout=20)[0] == expected  # type: ignore[index]
            elif expected is df.DroppedError:  # of one output only: its place is empty
                assert graph(*fed.values(), timeout=20) == (None, None)
            else:
                with pytest.raises(df.NodeError):
                    graph(*fed.values(), timeout=20)
        graph.feed({"x": 1}, partial=True)
        assert outcome(graph) is df.MissingError
        if mode == "process":  # in one thread nothing is late
            graph.feed({"x": 1, "y": 99})
            assert outcome(graph) is df.LateError
        wait_until(lambda: comes_out(graph))  # what is slow may still be at it
        check_settled(graph)


def comes_out(graph: df.FlowGraph) -> bool:
    try:
        return graph(2, 3, timeout=20)[0] == (2, 3)  # type: ignore[index]
    except df.LateError:
        return False


@pytest.mark.parametrize("drop", [True, False], ids=["drop", "give out"])
@rules(*OUTCOMES)
def test_outcomes_at_a_join(rule: Rule, drop: bool) -> None:
    """Section 8, 2: expired sets are dropped, or handed on as they are."""
    fed, expected = rule.given, rule.expected
    with joined(drop, a=lambda x: fails_at_five.fnode("f")(unless_seven.fnode("u")(x))) as graph:
        if "y" in fed:
            if isinstance(expected, tuple):
                assert graph(*fed.values()) == expected
            else:
                with pytest.raises(expected):  # type: ignore[call-overload]
                    graph(*fed.values())
        else:
            graph.feed(fed, partial=True)
            assert outcome(graph) == (expected if drop else (1, None))
        assert graph(3, 4) == (3, 4)
        check_settled(graph)


# -------------------------------------------------------------------------------------------- sections 8 and 10

def test_a_low_level_function_sees_code_364000_for_what_is_missing() -> None:
    """Section 10, 1: missing inputs are replaced by one shared null-data message with ret_code 364000."""
    node = df.FuncProcessPoint(py_func=Codes).fnode(2, 1, name="join")
    with joined(False, join=node) as graph:
        graph.feed({"y": np.ones(1)}, partial=True)
        assert outcome(graph).tolist() == [364000, 0]  # type: ignore[attr-defined]


def test_a_model_is_not_run_with_a_gap() -> None:
    """Section 17: models get whole sets only."""
    from tests.system.case_support import MODELS

    model = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx").fnode(2, 1, name="join")
    with joined(False, join=model) as graph:
        graph.feed({"x": np.ones(3, np.float32)}, partial=True)
        assert outcome(graph) is df.MissingError


def test_over_the_limit_the_smallest_key_is_treated_whatever_came_first() -> None:
    """Section 8, 3: more keys than the limit: the smallest one is given out."""
    with joined(False, cache=2, timeout=None) as graph:
        for trans_id in (3, 4, 5):
            graph.feed({"x": trans_id}, partial=True, info=df.FeedInfo(transaction_id=trans_id))
        assert outcome(graph) == (3, None)
        assert graph.running.client.in_flight == 2
        assert graph.feed({"y": 4}, partial=True, info=df.FeedInfo(transaction_id=4)) == 4
        assert outcome(graph) == (4, 4)


def test_what_comes_late_is_dropped_and_counted_and_its_successor_is_not_disturbed() -> None:
    """Section 8: the cache lives across Fetch calls; a set that was given up does not come back."""
    with joined(False) as graph:
        graph.feed({"x": 1}, partial=True)
        assert outcome(graph) == (1, None)
        graph.feed({"y": 1}, partial=True)
        graph.feed({"x": 2, "y": 2})
        assert outcome(graph) == (2, 2)
        assert (graph.counters.late, graph.counters.fed, graph.running.client.in_flight) == (1, 2, 0)


def test_what_is_fed_in_pieces_waits_only_where_the_pieces_meet() -> None:
    """Section 8, 4: an incomplete set at fetch; outputs that an input does not reach are none of its transaction."""
    x, y = df.FlowData("x"), df.FlowData("y")
    graph = df.FlowGraph([same.fnode("a")(x), same.fnode("b")(y)], mode="inline")
    graph.set_inputs_align_attrs(8, SOON)
    with graph:
        graph.feed({"y": 3}, partial=True)
        assert graph.fetch(timeout=5) == (None, 3)
        assert graph(1, 2) == (1, 2)


@pytest.mark.parametrize("drop", [True, False], ids=["drop", "give out"])
def test_at_fetch_the_error_holds_the_partial_set_unless_it_is_dropped(drop: bool) -> None:
    """Section 8, 4: DATA_NOT_ALIGNED, outputs hold the partial set."""
    x = df.FlowData("x")
    slow = df.pyflow(lambda value: time.sleep(20 * SOON) or value)
    graph = df.FlowGraph([same.fnode("quick")(x), slow.fnode("slow")(x)])
    graph.set_inputs_align_attrs(8, 2 * SOON, drop)
    with graph:
        with pytest.raises(df.LateError, match="output slow did not come") as caught:
            graph(3)
        assert caught.value.outputs == (() if drop else (3, None))


def test_messages_of_one_id_and_different_labels_are_sets_of_their_own() -> None:
    """Section 8: keyed (trans_id, data_label)."""
    @df.pyflow
    def parts(n):
        yield from range(n)

    @df.pyflow(choice_output=lambda value: value != 1)
    def not_one(value):
        return value

    x = df.FlowData("x")
    some = parts.fnode("parts")(x)
    graph = df.FlowGraph([both.fnode("join")(not_one.fnode("not one")(some), same.fnode("s")(some))], mode="inline")
    graph.set_inputs_align_attrs(8, SOON)
    with graph:
        assert graph(3) == [(0, 0), (2, 2)]


def test_without_limits_a_set_waits() -> None:
    """Section 8: without a largest number of sets there is no alignment."""
    x, y = df.FlowData("x"), df.FlowData("y")
    with df.FlowGraph([both.fnode("join")(x, y)], mode="inline") as graph:
        graph.feed({"x": 1}, partial=True)
        with pytest.raises(df.WaitTimeoutError):
            graph.fetch(timeout=3 * SOON)
        graph.feed({"y": 2}, partial=True)
        assert graph.fetch(timeout=5) == (1, 2)


# ------------------------------------------------------------------------------------------------------ section 14

class Raiser:
    """Raises for 3, twice for 4, and sends on what it got."""

    @df.proc_wrapper("i0,o0")
    def proc(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        if not inputs:
            return context.set_output(0, np.array([-1]))  # nobody waits for this
        number = int(inputs[0].get_tensor()[0])
        if number in (3, 4):
            context.raise_exception(9900000 + number, 70 + number)
        if number == 4:
            context.raise_exception(1, 1)
        return context.set_output(0, inputs[0])


class Listener:
    """Answers with what it was told, and forgets it."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.lost: list[int] = []

    @df.proc_wrapper("i0,o0")
    def proc(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        if not inputs:
            found, code, number = context.get_exception()
            again, *_ = context.get_exception()
            self.told += [found, code, number, again, context.get_transaction_id(), context.get_user_data(1)[0]]
            return 0
        told, self.told = self.told, []
        return context.set_output(0, np.array([*told, *self.lost], np.int64))

    def on_lost(self, trans_id: int) -> None:
        self.lost.append(trans_id)


def raising(mode: str = "inline", nested: bool = False) -> df.FlowGraph:
    x = df.FlowData("x")
    raiser = df.FuncProcessPoint(py_func=Raiser).fnode(1, 1, name="raiser")
    if nested:
        inner = df.FlowData("inner")
        raiser = df.FlowGraphProcessPoint(df.FlowGraph([raiser(inner)], name="g")).fnode(1, 1, name="around")
    listener = df.FuncProcessPoint(py_func=Listener).fnode(1, 1, name="listener")
    graph = df.FlowGraph([listener(x), raiser(x)], mode=mode)
    graph.set_inputs_align_attrs(16, 5)
    graph.set_exception_catch(True)
    return graph


def number(value: int) -> np.ndarray:
    return np.array([value], np.int64)


@pytest.mark.parametrize("mode", ["inline", "process"])
def test_an_exception_ends_its_transaction_and_all_others_are_told_once(mode: str) -> None:
    """Section 14: Proc is called with an empty vector; GetException yields code and context once; fetch returns it."""
    with raising(mode) as graph:
        trans_id = graph.feed({"x": number(3)}, info=df.FeedInfo(start_time=1, end_time=2, user_data=b"u"))
        with pytest.raises(df.RaisedError) as caught:
            graph.fetch(timeout=20)
        error = caught.value
        assert (error.code, error.user_context_id, error.node, error.trans_id) == (9900003, 73, "raiser", trans_id)
        assert (error.start_time, error.end_time, error.user_data[:1]) == (1, 2, b"u")
        told: list[int] = []
        wait_until(lambda: told.extend(graph(number(1), timeout=20)[0].tolist()) or told)  # type: ignore[index]
        assert told[:6] == [True, 9900003, 73, False, trans_id, ord("u")]
        assert told[6:] == [trans_id]  # on_lost
        assert graph(number(1), timeout=20)[1].tolist() == [1]  # type: ignore[index]
        check_settled(graph)


def test_a_function_raises_once_for_a_transaction() -> None:
    """Section 14: ignored if already raised by this processor."""
    with raising() as graph:
        with pytest.raises(df.RaisedError) as caught:
            graph(number(4))
        assert (caught.value.code, caught.value.user_context_id) == (9900004, 74)


def test_functions_of_another_scope_are_not_told() -> None:
    """Section 14: processors with equal scope. The transaction ends all the same."""
    with raising(nested=True) as graph:
        with pytest.raises(df.RaisedError) as caught:
            graph(number(3))
        assert caught.value.node == "around/raiser"
        assert graph(number(1))[0].tolist() == []  # type: ignore[index]


def test_an_id_with_an_exception_cannot_be_used_again() -> None:
    """Section 14: data of that id is dropped; so whoever uses it again is told at once instead of waiting for ever."""
    with raising() as graph:
        with pytest.raises(df.RaisedError):
            graph(number(3))
        with pytest.raises(df.UsageError, match="ended with an exception"):
            graph.feed({"x": number(1)}, info=df.FeedInfo(transaction_id=1))


def test_more_exceptions_than_the_table_holds_disturb_nothing() -> None:
    """Section 14: table limit 1024; the smallest key is expired. BC-052: sets of ids do not grow for ever."""
    with raising() as graph:
        for _ in range(1100):
            with contextlib.suppress(df.RaisedError):
                graph(number(3))
        backend = graph.running._backend
        assert len(backend._exceptions._table) == 1024  # type: ignore[attr-defined]
        assert graph(number(1))[1].tolist() == [1]  # type: ignore[index]
        check_settled(graph)


def test_without_catching_raising_is_an_error_that_says_so() -> None:
    """Section 14: catch disabled: the process stops; here the transaction ends."""
    x = df.FlowData("x")
    raiser = df.FuncProcessPoint(py_func=Raiser).fnode(1, 1, name="raiser")
    with df.FlowGraph([raiser(x)], mode="inline") as graph:
        with pytest.raises(df.NodeError, match="catches no exceptions"):
            graph(number(3))
        assert graph(number(1)).tolist() == [1]  # type: ignore[attr-defined]


class Caller:
    """Calls a graph with what it got, and then with 1; answers with the codes of both calls."""

    @df.proc_wrapper("i0,o0")
    def proc(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        first, _ = context.run_flow_model("raiser", [inputs[0]], 5000)
        second, _ = context.run_flow_model("raiser", [context.to_flow_msg(number(1))], 5000)
        return context.set_output(0, np.array([first, second]))


@pytest.mark.parametrize("mode", ["inline", "process"])
def test_in_a_graph_that_is_called_it_ends_the_call_and_nothing_else(mode: str) -> None:
    """Section 14, (a): a waiting RunFlowModel fails with 564000; the transaction goes on."""
    x, y = df.FlowData("x"), df.FlowData("y")
    inner = df.FlowGraph([df.FuncProcessPoint(py_func=Raiser).fnode(1, 1, name="raiser")(y)], name="raiser")
    point = df.FuncProcessPoint(py_func=Caller)
    point.add_invoked_closure("raiser", df.FlowGraphProcessPoint(inner))
    graph = df.FlowGraph([point.fnode(1, 1, name="caller")(x)], mode=mode)
    graph.set_inputs_align_attrs(16, 5)
    graph.set_exception_catch(True)
    with graph:
        assert graph(number(3), timeout=20).tolist() == [564000, 0]  # type: ignore[attr-defined]
        assert graph(number(1), timeout=20).tolist() == [0, 0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["inline", "process"])
def test_a_model_node_gives_up_by_its_own_limits_and_others_by_those_of_the_graph(mode: str) -> None:
    """Section 8: limits of one node; those of functions are in `test_alignment` of pne_udf."""
    x, y, z = (df.FlowData(name) for name in "xyz")
    model = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx").fnode(2, 1, "model")
    added = model.set_options(align_max_cache=2, align_timeout=SOON)(x, y)
    graph = df.FlowGraph([both.fnode("waits")(added, z)], mode=mode)
    three = np.ones(3, np.float32)
    with graph:
        graph.feed({"x": three, "z": three}, partial=True)
        with pytest.raises(df.MissingError, match="input 1 did not come") as caught:
            graph.fetch(timeout=30)
        assert caught.value.node == "model"
        graph.feed({"x": three, "y": three}, partial=True)
        with pytest.raises(df.WaitTimeoutError):
            graph.fetch(timeout=5 * SOON)
        graph.feed({"z": three}, partial=True)
        assert [part.tolist() for part in graph.fetch(timeout=30)] == [[2.0] * 3, [1.0] * 3]
