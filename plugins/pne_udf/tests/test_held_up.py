"""C++ functions in graphs that are cancelled in part, and held up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
def both(built) -> Iterator[Callable[[], df.FlowNode]]:
    """Makes a node of two functions: one adds its first and third input, one hands on the second."""

    def make() -> df.FlowNode:
        funcs = [{"func_name": n, "inputs_index": i, "outputs_index": o} for n, (i, o) in PORTS.items()]
        return df.FuncProcessPoint(built.configure(func_list=funcs, input_num=3, output_num=2)).fnode(3, 2, name="cpp")

    yield make
    built.configure()


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
    return sum(node.calls for node in graph.stats().nodes if node.node == "cpp")


def test_a_suspended_cpp_node_begins_no_call_and_what_is_cancelled_meanwhile_is_never_called(built):
    x = df.FlowData("x")
    node = df.FuncProcessPoint(built.configure()).fnode(1, 1, name="cpp")
    with df.FlowGraph([node(x)]) as graph:
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
