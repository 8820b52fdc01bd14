from __future__ import annotations

from dflow_core.errors import NodeError
from dflow_core.executor.ordered_client import InOrder
from dflow_core.executor.outcomes import Channel, Outcome
from dflow_core.executor.transactions import TransactionTable
from dflow_core.message import FlowMsg, MsgInfo


def result(trans_id: int) -> Outcome:
    return Outcome(trans_id, (FlowMsg(MsgInfo(trans_id)),))


def test_outcomes_wait_for_transactions_before_theirs():
    order = InOrder()
    order.add(result(3))
    order.add(Outcome(4, error=NodeError("no"), last=True))
    assert order.next(1) is None
    order.add(result(1))
    assert order.next(1).trans_id == 1, "a result of the oldest itself passes, though more may follow"
    assert order.next(2) is None
    order.add(Outcome(2, last=True))  # it ended without a result
    assert order.next(3).trans_id == 3
    assert order.next(3) is None
    assert order.next(None).trans_id == 4
    assert order.next(None) is None


def test_results_of_one_transaction_keep_their_order():
    order, first, second = InOrder(), result(1), result(1)
    order.add(first)
    order.add(second)
    assert order.next(1) is first and order.next(1) is second


def test_the_oldest_transaction_is_that_of_the_channel():
    table, mine, other = TransactionTable(1, 1), Channel(), Channel()
    assert table.oldest_of(mine) is None
    for trans_id, channel in ((1, other), (2, mine), (3, mine)):
        table.begin([0], trans_id, channel)
    assert table.oldest_of(mine) == 2
