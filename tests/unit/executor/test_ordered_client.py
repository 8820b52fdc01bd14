from __future__ import annotations

import threading

import numpy as np

from dflow_core.errors import NodeError
from dflow_core.executor import InlineBackend
from dflow_core.executor.caller.ordered_client import InOrder, OrderedClient
from dflow_core.executor.caller.transactions import TransactionTable
from dflow_core.executor.outcomes import Channel, Outcome
from dflow_core.message import FlowMsg, HeapBlock, MsgInfo, decode, root_token
from tests.unit.executor.support import Func, Node, flow_model


def result(trans_id: int) -> Outcome:
    return Outcome(trans_id, (FlowMsg(MsgInfo(trans_id)),))


def test_outcomes_wait_for_transactions_before_theirs():
    oldest: list[int | None] = [1]
    order = InOrder(lambda: oldest[0])
    order.append(result(3))
    order.append(Outcome(4, error=NodeError("no"), last=True))
    assert not order and len(order) == 2
    order.append(result(1))
    assert order and order.popleft().trans_id == 1, "a result of the oldest itself passes, though more may follow"
    oldest[0] = 2
    assert not order
    oldest[0] = 3  # the second ended without a result
    assert order and order.popleft().trans_id == 3
    assert not order
    oldest[0] = None
    assert order and order.popleft().trans_id == 4
    assert not order


def test_results_of_one_transaction_keep_their_order():
    order, first, second = InOrder(lambda: 1), result(1), result(1)
    order.append(first)
    order.append(second)
    assert order.popleft() is first and order.popleft() is second


def test_the_oldest_transaction_is_that_of_the_channel():
    table, mine, other = TransactionTable(1, 1), Channel(), Channel()
    assert table.oldest_of(mine) is None
    for trans_id, channel in ((1, other), (2, mine), (3, mine)):
        table.begin([0], trans_id, channel)
    assert table.oldest_of(mine) == 2


def test_several_results_of_one_transaction_and_none_of_another_pass_in_order():
    node = Node("n", Func(lambda x: [x, x + 1] if x else []), ["x"])
    backend = InlineBackend(flow_model([node], ["x"], ["n:0"]), {"TEST": lambda _model, _context: [node.func]})
    client = OrderedClient("test", ["x"], ["n:0"], backend)
    for n in (0, 1, 0, 2):
        client.feed({0: np.array(n)})
    assert [decode(client.fetch(5).messages[0]) for _ in range(4)] == [1, 2, 2, 3]
    client.close()


class Batches:
    """A backend that gives results in the batches it is told to."""

    is_foreign = False

    def __init__(self, *batches: list[int]) -> None:
        self.batches = list(batches)

    def pump(self, timeout: float, room_for: object = ()) -> list[tuple[int, FlowMsg]]:
        if not self.batches:
            threading.Event().wait(timeout)
            return []
        return [
            (0, FlowMsg(MsgInfo(trans_id=n, token=root_token(n)), np.array(n))) for n in self.batches.pop(0)
        ]

    def alloc(self, size: int, timeout: float = 0) -> HeapBlock:
        return HeapBlock(size)

    def owns(self, block: object) -> bool:
        return True

    def has_room(self, inputs: object) -> bool:
        return True

    def feed(self, trans_id: int, blocks: object) -> None: ...

    def cancel_words(self) -> object:
        return np.zeros(0, np.uint64)

    def failure(self) -> None: ...

    def wake(self) -> None: ...

    def tell_cancelled(self) -> None: ...

    def close(self) -> None: ...


def test_results_that_arrive_together_in_another_order_are_given_in_order():
    backend = Batches([4], [3, 1], [2])
    client = OrderedClient("g", ["x"], ["y"], backend)
    for n in range(1, 5):
        client.feed({0: np.array(n)})
    assert [client.fetch(5).trans_id for _ in range(4)] == [1, 2, 3, 4]
    client.close()


def test_threads_that_fetch_together_all_get_their_results():
    backend = Batches([3, 2], [1])
    client = OrderedClient("g", ["x"], ["y"], backend)
    for n in range(1, 4):
        client.feed({0: np.array(n)})
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(client.fetch(20).trans_id)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(found) == [1, 2, 3]
    client.close()
