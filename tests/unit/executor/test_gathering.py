"""Collecting the parts of a transaction, without a node around it: every order, and every way it ends early."""

from __future__ import annotations

from functools import reduce
from itertools import permutations
from operator import xor

import pytest

from dflow_core.executor.pairing.gathering import Gatherer
from dflow_core.message import Aux, DataFlag, ErrorInfo, FlowMsg, Member, MsgInfo, root_token
from dflow_core.message.info import child_token

ERROR = Aux(error=ErrorInfo("node", "no such page", "KeyError", "ocr"))


def spread(trans_id: int, labels: tuple[int, ...], custom: int = 0) -> list[FlowMsg]:
    """Parts with these labels, and the message without data that closes the transaction."""
    root = root_token(trans_id)
    tokens = [child_token(root, index) for index in range(len(labels))]
    parts = [
        FlowMsg(MsgInfo(trans_id=trans_id, data_label=label, token=token, data_flag=custom))
        for label, token in zip(labels, tokens, strict=True)
    ]
    end = MsgInfo(trans_id=trans_id, token=reduce(xor, tokens, root), data_flag=custom | DataFlag.SKIP)
    return [*parts, FlowMsg(end)]


def failed(trans_id: int) -> FlowMsg:
    return FlowMsg(MsgInfo(trans_id=trans_id, data_label=2, data_flag=DataFlag.ERROR), aux=ERROR)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_in_whatever_order_parts_come_the_last_completes_and_they_are_in_the_generators_order(
    order: tuple[int, ...],
) -> None:
    messages, gatherer = spread(5, (1, 2, 3)), Gatherer()
    found = [gatherer.offer(messages[index]) for index in order]
    assert found[:-1] == [None, None, None]
    whole = found[-1]
    assert whole is not None and whole.error is None
    assert [part.info.data_label for part in whole.parts] == [1, 2, 3]
    assert gatherer.pending == 0


@pytest.mark.parametrize("custom", [0, DataFlag.CUSTOM_ID])
def test_the_head_is_that_of_the_transaction_before_it_was_spread(custom: int) -> None:
    gatherer = Gatherer()
    whole = [gatherer.offer(message) for message in reversed(spread(5, (1,), custom))][-1]
    assert whole is not None
    assert (whole.info.trans_id, whole.info.data_label, whole.info.data_flag) == (5, 0, custom)
    assert whole.info.token == root_token(5)


def test_a_generator_that_made_nothing_gives_a_transaction_without_parts() -> None:
    (end,) = spread(5, ())
    whole = Gatherer().offer(end)
    assert whole is not None and whole.parts == [] and whole.error is None


@pytest.mark.parametrize("before", range(4))
def test_an_error_ends_its_transaction_at_once_and_only_once(before: int) -> None:
    messages, other, gatherer = spread(5, (1, 2, 3)), spread(6, (1,)), Gatherer()
    gatherer.offer(other[0])
    for message in messages[:before]:
        assert gatherer.offer(message) is None
    whole = gatherer.offer(failed(5))
    assert whole is not None and whole.error is ERROR and whole.parts == [] and whole.info.data_flag == 0
    assert [gatherer.offer(message) for message in [*messages[before:], failed(5)]] == [None] * (5 - before)
    assert gatherer.pending == 1
    rest = gatherer.offer(other[1])
    assert rest is not None and len(rest.parts) == 1


@pytest.mark.parametrize(("members", "is_refused"), [(0, False), (1, False), (2, True)])
def test_a_batch_of_several_transactions_is_refused_with_what_to_do(members: int, is_refused: bool) -> None:
    message = spread(5, (1,))[0]
    message.aux = Aux(tuple(Member(MsgInfo(trans_id=5 + n)) for n in range(members)))
    whole = Gatherer().offer(message)
    assert (whole is not None) == is_refused
    if whole is not None:
        assert whole.error is not None and whole.error.error is not None
        assert whole.error.error.kind == "usage" and "Unbatch" in whole.error.error.message


def test_an_ended_transaction_is_dropped_until_it_is_let_in_again() -> None:
    messages, gatherer = spread(5, (1, 2)), Gatherer()
    gatherer.offer(messages[0])
    gatherer.poison(5)
    assert gatherer.pending == 0
    assert [gatherer.offer(message) for message in messages] == [None] * 3
    gatherer.unpoison(5)
    whole = [gatherer.offer(message) for message in messages][-1]
    assert whole is not None and len(whole.parts) == 2


def test_parts_nobody_wants_are_let_go_and_the_rest_is_still_counted() -> None:
    unwanted, wanted, gatherer = spread(5, (1, 2)), spread(6, (1, 2)), Gatherer()
    gatherer.offer(unwanted[0])
    gatherer.offer(wanted[0])
    gatherer.let_go(lambda trans_id: trans_id == 5)
    assert gatherer.pending == 2
    found = [[gatherer.offer(message) for message in rest[1:]][-1] for rest in (unwanted, wanted)]
    assert [None if one is None else len(one.parts) for one in found] == [1, 2]


def test_after_clear_nothing_is_left_of_what_had_come() -> None:
    messages, gatherer = spread(5, (1, 2)), Gatherer()
    gatherer.offer(messages[0])
    gatherer.clear()
    assert gatherer.pending == 0
    whole = [gatherer.offer(message) for message in messages][-1]
    assert whole is not None and len(whole.parts) == 2
