from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dflow_core.errors import ClosedError, UsageError
from dflow_core.executor.process.routing import LoadPicker, Picker, Rerouter, fixed, picked, target_of
from dflow_core.message import Block, FeedInfo, HeapBlock, MsgInfo, encode, routing_of
from dflow_core.model import Route
from dflow_core.spi import Queue


class Fake(Queue):
    """A queue with a level."""

    def __init__(self, name: str, level: int = 0) -> None:
        self.name, self.depth, self.filled = name, 8, level

    def put(self, block: Block, timeout: float | None = None) -> None:
        raise ClosedError("closed")

    def get(self, timeout: float | None = None) -> Block | None:
        return None

    def level(self) -> int:
        return self.filled

    def close(self) -> None:
        pass


def queues(*levels: int) -> list[Fake]:
    return [Fake(f"q@{i}", level) for i, level in enumerate(levels)]


def numbers(picker: Picker, keys: Sequence[tuple[int, int]]) -> list[int]:
    return [int(picker.pick(*key).name[2:]) for key in keys]


@pytest.mark.parametrize(
    ("by", "wanted"),
    [("label", [0, 1, 2, 0, 1, 2, 2]), ("transaction", [0, 1, 2, 0, 0, 0, 1]), ("sticky", [0, 1, 2, 0, 1, 2, 1])],
)
def test_rules(by, wanted):
    keys = [(1, 0), (2, 0), (3, 0), (1, 1), (1, 2), (1, 3), (2, 2)]
    picker = Picker(queues(0, 0, 0), by)
    assert numbers(picker, keys) == wanted
    route = Route(("q@0", "q@1", "q@2"), by)
    assert [int(route.pick(*key)[2:]) for key in keys] == wanted


def test_the_shortest_queue_and_of_equal_ones_the_one_used_longest_ago():
    made = queues(2, 0, 0)
    picker = LoadPicker(made)
    assert numbers(picker, [(1, 0)] * 3) == [1, 2, 1]
    made[0].filled, made[1].filled = 0, 5
    assert numbers(picker, [(1, 0)] * 3) == [0, 2, 0]


def test_spare_queues_are_used_when_no_other_is_left():
    made = queues(5, 5, 0)
    picker = LoadPicker(made, spares=1)
    assert numbers(picker, [(1, 0), (1, 0), (1, 0)]) == [0, 1, 0]
    assert picker.give_up(made[0]) and numbers(picker, [(1, 0)]) == [1]
    assert picker.give_up(made[1]) and numbers(picker, [(1, 0)]) == [2]
    assert not picker.give_up(made[2])


@pytest.mark.parametrize("by", ["label", "transaction", "sticky", "load"])
def test_what_a_closed_queue_would_get_goes_to_an_open_one(by):
    made = queues(0, 0, 0)
    target = target_of(Route(("q@0", "q@1", "q@2"), by), {queue.name: queue for queue in made})
    assert isinstance(target, Picker)
    rerouter = Rerouter([target, made[0]])
    assert rerouter.instead(made[1], 2, 2).name != "q@1"  # type: ignore[union-attr]
    assert 1 not in numbers(target, [(i, i % 4) for i in range(1, 9)])
    assert rerouter.instead(made[0], 1, 0) is made[2]
    assert rerouter.instead(made[2], 1, 0) is None, "all are closed: so is the graph"
    assert rerouter.instead(Fake("other"), 1, 0) is None


def test_a_route_with_one_queue_needs_no_picking():
    made = queues(0, 0)
    known = {queue.name: queue for queue in made}
    only, two = target_of(Route(("q@0",)), known), target_of(Route(("q@0", "q@1")), known)
    assert only is made[0] and fixed([only]) == [made[0]] and fixed([only, two]) is None
    assert picked([only, two], 2, 0) == made


def test_a_block_says_where_it_goes():
    block = encode(b"x", MsgInfo(trans_id=1 << 60, route_label=7), HeapBlock).block
    assert block is not None and routing_of(block) == (1 << 60, 7)


@pytest.mark.parametrize(
    "wrong", [{"route_label": -1}, {"route_label": 1 << 32}, {"start_time": -1}, {"flow_flags": 1 << 32}]
)
def test_numbers_that_do_not_fit_into_a_head_are_refused_at_once(wrong):
    with pytest.raises(UsageError, match="out of range in FeedInfo"):
        FeedInfo(**wrong)
    FeedInfo((1 << 64) - 1, 0, (1 << 32) - 1, 0, b"", (1 << 32) - 1)


@pytest.mark.parametrize(("wrong", "said"), [
    ({"transaction_id": 1.5}, "transaction_id=.*whole number, got 1.5"), ({"start_time": "now"}, "start_time"),
    ({"transaction_id": None}, "transaction_id"), ({"user_data": "text"}, "user_data=.*bytes, got 'text'"),
    ({"user_data": None}, "user_data"),
])
def test_what_cannot_be_in_a_head_is_refused_by_name(wrong, said):
    with pytest.raises(UsageError, match=said):
        FeedInfo(**wrong)
    FeedInfo(np.int64(3), user_data=bytearray(b"x"))
