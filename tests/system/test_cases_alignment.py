"""Cases of areas B and D whose right outcome needs limits of alignment: joins that give up, and what is told of it."""

from __future__ import annotations

import time

import pytest

import dflow_core as df
from tests.system.case_support import check_idle, wait_until


@df.pyflow(choice_output=lambda n: n is not None)
def drops_every_seventh(n):
    return n if n % 7 else None


@df.pyflow
def stumbles(n):
    time.sleep(0.25 if n % 50 == 49 else 0.0005)
    return n


@df.pyflow
def both(a, b):
    return a, b


@df.pyflow
class Join:
    """Keeps something for each transaction, and lets go of what it is told will never come."""

    def __init__(self):
        self.lost = []

    @df.method()
    def meet(self, a, b):
        return (a, b, len(self.lost))

    def on_lost(self, trans_id):
        self.lost.append(trans_id)


def test_a_join_with_a_time_limit_gives_up_what_is_late_and_the_rest_comes_out_right() -> None:
    """BC-020: with alignment on: no hang; each incomplete transaction ends with its id and the input that is missing.

    One branch drops every seventh message, the other stumbles for longer than the limit; depth 4, fed at full speed.
    """
    x = df.FlowData("x")
    joined = both.fnode("join")(drops_every_seventh.fnode("a")(x), stumbles.fnode("b", instances=2)(x))
    graph = df.FlowGraph([joined], {"queue_depth": "4"})
    graph.set_inputs_align_attrs(64, 0.1, drop=True)
    with graph:
        good, late = 0, 0
        for result in graph.map(range(200), errors="return", timeout=30, in_flight=16):
            if isinstance(result, tuple):
                assert result[0] == result[1] and result[0] % 7
                good += 1
            else:
                assert isinstance(result, df.LateError) and result.node == "join" and result.trans_id
                assert "input 1 did not come" in result.message
                late += 1
        check_idle(graph)
        counters = graph.counters
        assert (good + late + counters.dropped, counters.failed) == (200, late) and late > 0


def test_halves_of_transactions_are_let_go_and_functions_are_told() -> None:
    """BC-052: two inputs, only one of them fed; caches return to nothing, and the join is told of each that is lost.

    BC-051: many expire at once, each of them once.
    """
    x, y = df.FlowData("x"), df.FlowData("y")
    graph = df.FlowGraph([Join.fnode().meet(x, y)], {"max_unfetched": "1000"})
    graph.set_inputs_align_attrs(100, 0.1, drop=True)
    with graph:
        count = 600
        for n in range(count):
            graph.feed({"x": n}, partial=True)
        ended = set()
        for _ in range(count):
            with pytest.raises(df.MissingError) as caught:
                graph.fetch(timeout=20)
            ended.add(caught.value.trans_id)
        assert ended == set(range(1, count + 1))
        assert graph("a", "b", timeout=20) == ("a", "b", count)
        wait_until(lambda: graph.running.client.in_flight == 0)
        check_idle(graph)
