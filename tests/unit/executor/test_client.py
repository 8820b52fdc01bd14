"""The caller's side: how transactions end, in which order, and what the caller is told."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dflow_core.errors import (
    AlignmentError,
    ClosedError,
    DflowError,
    DroppedError,
    NodeError,
    PoolExhaustedError,
    UsageError,
    WaitTimeoutError,
)
from dflow_core.executor import GraphClient, InlineBackend
from dflow_core.message import Block, FeedInfo, HeapBlock, decode
from tests.unit.executor.support import NOTHING, Func, Node, flow_model, inline


def double() -> GraphClient:
    return inline([Node("double", Func(lambda x: x * 2), ["x"])], ["x"], ["double:0"])


def value(client: GraphClient, x: object) -> object:
    (outcome,) = client.call({0: x})
    return decode(outcome.messages[0])  # type: ignore[arg-type]


def test_call_gives_the_result_of_its_own_transaction() -> None:
    client = double()
    client.feed({0: np.array(5)})
    assert value(client, np.array(1)) == 2
    assert decode(client.fetch(0).messages[0]) == 10  # type: ignore[arg-type]


def test_counters_add_up_at_idle() -> None:
    """BC-055."""
    def picky(x: np.ndarray) -> object:
        if x == 1:
            raise ValueError
        return NOTHING if x == 2 else x

    client = inline([Node("picky", Func(picky), ["x"])], ["x"], ["picky:0"])
    for n in range(4):
        client.feed({0: np.array(n)})
    for _ in range(3):
        client.fetch(0)
    c = client.counters
    assert (c.fed, c.delivered, c.failed, c.dropped, client.in_flight) == (4, 2, 1, 1, 0)


def test_error_names_node_transaction_and_cause() -> None:
    def bad(x: object) -> object:
        raise KeyError("weights")

    client = inline([Node("bad", Func(bad), ["x"])], ["x"], ["bad:0"])
    with pytest.raises(NodeError, match="KeyError") as caught:
        client.call({0: np.zeros(2)})
    assert (caught.value.node, caught.value.instance, caught.value.trans_id) == ("bad", 0, 1)


def test_one_failing_branch_ends_a_transaction_once() -> None:
    def bad(x: object) -> object:
        raise ValueError

    nodes = [Node("a", Func(bad), ["x"]), Node("b", Func(bad), ["x"])]
    client = inline(nodes, ["x"], ["a:0", "b:0"])
    client.feed({0: 1})
    assert client.fetch(0).error is not None
    with pytest.raises(WaitTimeoutError):
        client.fetch(0)
    assert client.counters.late == 1


def test_dropped_transaction_says_so() -> None:
    client = inline([Node("drop", Func(lambda x: NOTHING), ["x"])], ["x"], ["drop:0"])
    with pytest.raises(DroppedError):
        client.call({0: 1})


def test_join_gets_both_branches_of_one_transaction_and_skips_reach_it() -> None:
    """BC-020: a join completes although one branch sent nothing."""
    nodes = [
        Node("some", Func(lambda x: NOTHING if int(x) % 7 == 0 else x), ["x"]),
        Node("all", Func(lambda x: -x), ["x"]),
        Node("join", Func(lambda a, b: (int(a), int(b)) and [int(a), int(b)]), ["some:0", "all:0"]),
    ]
    client = inline(nodes, ["x"], ["join:0"])
    results = [
        [decode(o.messages[0]) for o in client.call({0: np.array(n)})]  # type: ignore[arg-type]
        for n in range(1, 7)
    ]
    assert results == [[n, -n] for n in range(1, 7)]
    with pytest.raises(DroppedError):
        client.call({0: np.array(7)})


def test_stream_result_is_every_part_in_order() -> None:
    client = inline([Node("split", Func(lambda x: [1, 2, 3]), ["x"])], ["x"], ["split:0"])
    assert [decode(o.messages[0]) for o in client.call({0: 0})] == [1, 2, 3]  # type: ignore[arg-type]


def test_stream_against_single_branch_is_an_alignment_error() -> None:
    nodes = [
        Node("split", Func(lambda x: [1, 2]), ["x"]),
        Node("join", Func(lambda a, b: a), ["split:0", "x"]),
    ]
    with pytest.raises(AlignmentError):
        inline(nodes, ["x"], ["join:0"]).call({0: 0})


def test_ordered_stream_keeps_order_around_errors() -> None:
    """BC-049."""
    def picky(x: np.ndarray) -> object:
        if x == 3:
            raise ValueError
        return x

    client = inline([Node("picky", Func(picky), ["x"])], ["x"], ["picky:0"])
    outcomes = list(client.stream(({0: np.array(n)} for n in range(6)), in_flight=4, ordered=True))
    assert [o.trans_id for o in outcomes] == [1, 2, 3, 4, 5, 6]
    assert [o.error is not None for o in outcomes] == [False, False, False, True, False, False]


def test_stream_takes_no_more_items_than_may_be_in_flight() -> None:
    taken: list[int] = []

    def items() -> object:
        for n in range(10):
            taken.append(n)
            yield {0: np.array(n)}

    client = double()
    stream = client.stream(items(), in_flight=3, ordered=True)  # type: ignore[arg-type]
    next(stream)
    assert len(taken) <= 4
    stream.close()  # type: ignore[attr-defined]


def test_partial_feeds_meet_by_transaction_id() -> None:
    node = Node("sub", Func(lambda a, b: a - b), ["a", "b"])
    client = inline([node], ["a", "b"], ["sub:0"])
    client.feed({0: np.array(10)})
    client.feed({0: np.array(20)})
    client.feed({1: np.array(1)})
    client.feed({1: np.array(2)})
    got = [(o.trans_id, int(decode(o.messages[0]))) for o in (client.fetch(0), client.fetch(0))]  # type: ignore[arg-type,call-overload]
    assert got == [(1, 9), (2, 18)]


def test_full_feed_after_uneven_partial_feeds_gets_a_fresh_id() -> None:
    node = Node("sub", Func(lambda a, b: a - b), ["a", "b"])
    client = inline([node], ["a", "b"], ["sub:0"])
    client.feed({0: np.array(10)})
    assert client.feed({0: np.array(3), 1: np.array(2)}) == 2
    outcome = client.fetch(0)
    assert outcome.trans_id == 2


def test_wanted_transaction_id_is_used_and_checked() -> None:
    client = double()
    assert client.feed({0: 1}, info=FeedInfo(transaction_id=40)) == 40
    assert client.feed({0: 1}) == 41
    with pytest.raises(UsageError, match="below"):
        client.feed({0: 1}, info=FeedInfo(transaction_id=7))
    with pytest.raises(UsageError, match="range"):
        client.feed({0: 1}, info=FeedInfo(transaction_id=2**64 - 1))


def test_times_flags_and_user_data_come_back() -> None:
    client = double()
    client.feed({0: np.array(1)}, info=FeedInfo(3, 4, 2, 0, b"abc"))
    info = FeedInfo.of(client.fetch(0).messages[0].info)  # type: ignore[union-attr]
    assert (info.start_time, info.end_time, info.flow_flags, info.transaction_id) == (3, 4, 2, 1)
    assert info.user_data.rstrip(b"\0") == b"abc"


def test_closed_client_refuses_and_closes_its_functions_once() -> None:
    func = Func(lambda x: x)
    client = inline([Node("n", func, ["x"])], ["x"], ["n:0"])
    client.close()
    client.close()
    assert func.closed == 1
    with pytest.raises(ClosedError):
        client.fetch(0)
    with pytest.raises(ClosedError):
        client.feed({0: 1})


def test_waiting_in_vain_says_where_everything_stands() -> None:
    """BC-063."""
    nodes = [Node("join", Func(lambda a, b: a), ["a", "b"])]
    client = inline(nodes, ["a", "b"], ["join:0"])
    client.feed({0: 1})
    with pytest.raises(WaitTimeoutError, match=r"join: 0 calls, 1 waiting for a part"):
        client.fetch(0)


def test_dropped_transactions_do_not_hold_feeding_up() -> None:
    """BC-019: only what `fetch` would give counts as unfetched."""
    client = inline([Node("drop", Func(lambda x: NOTHING), ["x"])], ["x"], ["drop:0"])
    for _ in range(300):
        client.feed({0: 1}, timeout=1)
        with pytest.raises(WaitTimeoutError):
            client.fetch(0)
    assert client.counters.dropped == 300


def test_stream_with_more_in_flight_than_may_lie_unfetched_gives_results_instead_of_waiting_for_room() -> None:
    client = double()
    outcomes = list(client.stream(({0: np.array(n)} for n in range(1000)), in_flight=600, ordered=True, timeout=5))
    assert [int(decode(o.messages[0])) for o in outcomes] == list(range(0, 2000, 2))  # type: ignore[arg-type, call-overload]
    assert all(o.last for o in outcomes)


class ShortOfMemory(HeapBlock):
    """A block of a backend that has memory for three."""


def test_stream_gives_results_when_there_is_no_memory_for_the_next_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """BC-008: what the caller has not been given yet may be what holds the memory."""
    client = double()
    blocks: weakref.WeakSet[HeapBlock] = weakref.WeakSet()

    def alloc(size: int, timeout: float = 0.0) -> HeapBlock:
        if len(blocks) >= 6:
            raise PoolExhaustedError("no memory")
        block = ShortOfMemory(size)
        blocks.add(block)
        return block

    backend = client._backend
    monkeypatch.setattr(backend, "alloc", alloc)
    seen = 0
    for outcome in client.stream(({0: np.zeros(10)} for _ in range(50)), in_flight=20, ordered=True, timeout=5):
        seen += 1
        del outcome
    assert seen == 50
    held = [client._backend.alloc(1) for _ in range(6)]
    with pytest.raises(PoolExhaustedError):
        client.feed({0: np.zeros(10)}, timeout=0.05)
    assert held and client.counters.fed == 50


def test_threads_take_turns_in_running_the_nodes_of_an_inline_graph() -> None:
    """Who fetches while another thread feeds runs none of its nodes meanwhile, and is woken by the result."""
    started, go = threading.Event(), threading.Event()
    ran: list[int] = []

    def first(x: object) -> object:
        started.set()
        assert go.wait(30)
        return x

    def second(x: object) -> object:
        ran.append(threading.get_ident())
        return x

    nodes = [Node("first", Func(first), ["x"]), Node("second", Func(second), ["x"])]
    client = inline(nodes, ["x"], ["first:0", "second:0"])
    with ThreadPoolExecutor(2) as pool:
        fed = pool.submit(lambda: (client.feed({0: 7}), threading.get_ident()))
        assert started.wait(30)
        with pytest.raises(WaitTimeoutError):
            client.fetch(0.02)
        assert ran == []
        fetched = pool.submit(client.fetch, 30)
        go.set()
        assert [decode(msg) for msg in fetched.result().messages if msg is not None] == [7, 7]
        assert ran == [fed.result()[1]]


def test_a_graph_that_fails_while_it_is_fed_says_why() -> None:
    class Failing(InlineBackend):
        """Closed by a failure between the look for room and the feed."""

        why: DflowError | None = None

        def feed(self, trans_id: int, blocks: Mapping[int, Block]) -> None:
            self.why = NodeError("weights", node="bad")
            raise ClosedError("queue 'x' was closed")

        def failure(self) -> DflowError | None:
            return self.why

    node = Node("same", Func(lambda x: x), ["x"])
    backend = Failing(flow_model([node], ["x"], ["same:0"]), {"TEST": lambda *_: [node.func]})
    with pytest.raises(NodeError, match="weights"):
        GraphClient("g", ["x"], ["same:0"], backend).feed({0: np.zeros(1)})
