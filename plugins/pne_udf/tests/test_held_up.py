"""C++ functions in graphs that are cancelled in part, held up, or lose an instance; and what passes through them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import numpy as np
import pytest

import dflow_core as df
from dflow_core.executor.cancel_board import BOARD, WORDS
from dflow_core.testing.waiting import wait_until

MIB = 1 << 20
SLOTS_AT = 8
PORTS = {"add": ([0, 2], [0]), "pass_on": ([1], [1])}


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@df.pyflow
def same(x):
    return x


@pytest.fixture
def both(built) -> Callable[[], df.FlowNode]:
    """Makes a node of two functions: one adds its first and third input, one hands on the second."""

    def make() -> df.FlowNode:
        funcs = [{"func_name": n, "inputs_index": i, "outputs_index": o} for n, (i, o) in PORTS.items()]
        path = built.configure(func_list=funcs, input_num=3, output_num=2)
        path = path.rename(path.with_name("both.json"))
        built.configure()
        return df.FuncProcessPoint(path).fnode(3, 2, name="cpp")

    return make


@pytest.fixture
def scale(built) -> df.FlowNode:
    """A node that doubles what it gets."""
    return df.FuncProcessPoint(built.config).fnode(1, 1, name="scale")


def in_use(graph: df.FlowGraph) -> int:
    return graph.running.deployment.group.stats().bytes_in_use


def test_a_cancelled_transaction_leaves_a_cpp_join_and_everything_after_it(both):
    """Its parts are freed while the rest is missing; what comes of it later adds up, and nothing stays on the board."""
    a, b, c = (df.FlowData(name) for name in "abc")
    total, passed = both()(a, b, c)
    with df.FlowGraph([same.fnode()(total), passed]) as graph:
        halves = []
        for _ in range(3):
            half = graph.feed({a: np.ones(MIB, np.float32)}, partial=True)
            wait_until(lambda: in_use(graph) >= 4 * MIB)
            halves.append(int(half))
            assert half.cancel()
            with pytest.raises(df.CancelledError):
                graph.fetch(timeout=20)
            wait_until(lambda: in_use(graph) < MIB)
        whole = [graph.feed({a: floats(n), b: floats(n), c: floats(n)}) for n in range(40)]
        cancelled = {int(one) for one in whole[::3] if one.cancel()}
        ended = {}
        for _ in whole:
            try:
                (added, kept), info = graph.fetch(with_info=True, timeout=20)
                ended[info.transaction_id] = float(added[0]), float(kept[0])
            except df.CancelledError as error:
                ended[error.trans_id] = None
        wanted = {int(one): None if one in cancelled else (2.0 * n, 1.0 * n) for n, one in enumerate(whole)}
        assert ended == wanted and cancelled
        graph(floats(1), floats(1), floats(1))  # whoever fetches reads what is left of those before it
        board = graph.running.deployment.group.board(BOARD, WORDS)
        wait_until(lambda: {*board[SLOTS_AT:].tolist()} == {0, *halves})


def calls(graph: df.FlowGraph) -> int:
    return sum(node.calls for node in graph.stats().nodes if node.node == "scale")


def test_a_suspended_cpp_node_begins_no_call_and_what_is_cancelled_meanwhile_is_never_called(scale):
    x = df.FlowData("x")
    with df.FlowGraph([scale(x)]) as graph:
        assert graph(floats(1)) == 2
        for trans_id in (2, 8):
            graph.suspend()
            before = calls(graph)
            fed = [graph.feed({x: floats(n)}) for n in range(6)]
            assert fed[0] == trans_id
            with pytest.raises(df.WaitTimeoutError):
                graph.fetch(timeout=0.2)
            assert calls(graph) == before, "nothing begins"
            assert [fed[n].cancel() for n in (1, 4)] == [True, True]
            graph.resume()
            ended: dict[int, object] = {}
            for _ in fed:
                try:
                    value, info = graph.fetch(with_info=True, timeout=20)
                    ended[info.transaction_id] = float(value[0])
                except df.CancelledError as error:
                    ended[error.trans_id] = None
            assert [ended[one] for one in fed] == [0, None, 4, 6, None, 10]
            assert calls(graph) == before + 4
        graph.suspend()
        fed = [graph.feed({x: floats(n)}) for n in range(3)]
        assert graph.recover() == 3, "while it is suspended, and it goes on"
        for _ in fed:
            with pytest.raises(df.CancelledError):
                graph.fetch(timeout=20)
        assert graph(floats(7)) == 14


def test_cpp_functions_go_round_an_instance_that_is_gone_for_good(both, scale):
    """BC-061: the producer is in C++, and so are the consumers, each with queues of its own."""
    x = df.FlowData("x")
    half = scale(x)
    total, _ = both().set_options(instances=2, when_lost="degrade")(half, x, half)
    with df.FlowGraph([same.fnode()(total)], {"output": "none"}) as graph:

        def states() -> list[str]:
            return sorted(s.state for s in graph.running.deployment.status() if s.node == "cpp")

        def results() -> list[float]:
            return [float(r[0]) for r in graph.map([floats(n) for n in range(20)], timeout=30, copy=True)]

        assert results() == [4.0 * n for n in range(20)]
        first = next(s for s in graph.running.deployment.status() if s.node == "cpp")
        os.kill(first.pid, signal.SIGKILL)
        wait_until(lambda: states() == ["failed", "running"])
        assert graph.stats().status.startswith("degraded: without cpp#")
        assert results() == [4.0 * n for n in range(20)]


def test_heads_and_flags_pass_through_cpp_functions(both, scale):
    """The row for C++ of tests/system/test_semantics_heads.py: sections 2, 7.2 and 13; one that is not called, too."""
    x, eos = df.FlowData("x"), int(df.Flag.EOS)
    flags = int(df.Flag.SEG) | eos
    info = df.FeedInfo(start_time=7, end_time=9, flow_flags=flags, transaction_id=41, user_data=bytes(range(64)))
    with df.FlowGraph([*both()(x, x, x), same.fnode()(x)]) as graph:
        graph.feed({x: floats(3)}, info=info)
        values, told = graph.fetch(with_info=True, timeout=30)
        assert [v.tolist() for v in values] == [[6, 1], [3], [3]] and told == info
    with df.FlowGraph([same.fnode()(scale(x))]) as graph:
        for _ in range(2):
            trans_id = graph.feed(None, info=df.FeedInfo(flow_flags=eos))
            value, told = graph.fetch(with_info=True, timeout=30)
            assert (value, told.flow_flags, told.transaction_id) == (None, eos, trans_id)
        graph.feed({x: floats(3)}, info=info)
        value, told = graph.fetch(with_info=True, timeout=30)
        assert value.tolist() == [6] and told == info
