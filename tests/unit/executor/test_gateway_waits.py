"""What a gateway waits for, and what it does when its link is gone."""

from __future__ import annotations

import numpy as np
import pytest

from dflow_core.errors import PeerGoneError
from dflow_core.model import QueuePlan
from tests.unit.executor.machines import End, TwoMachines


def readable(end: End) -> list[str]:
    return [queue.name for queue in end.mover.waits().readable]


def writable(end: End) -> list[str]:
    return [queue.name for queue in end.mover.waits().writable]


def test_it_waits_for_room_only_while_a_message_does() -> None:
    two = TwoMachines([QueuePlan("q", 1)])
    for trans_id in (1, 2):
        assert writable(two.far) == []
        two.head.put(trans_id)
        two.settle()
    assert writable(two.far) == ["q"]
    two.far.taken()
    two.settle()
    assert writable(two.far) == []


def test_it_waits_for_messages_only_while_it_may_send_them() -> None:
    two = TwoMachines([QueuePlan("q", 1)])
    assert readable(two.head) == []  # the other end has not said how many it takes
    two.settle()
    assert readable(two.head) == ["q"]
    two.head.put(1)
    two.head.mover.turn()
    assert readable(two.head) == []
    two.settle()
    assert readable(two.head) == ["q"]
    two.head.queue().close()
    two.settle()
    assert readable(two.head) == []  # a closed queue is always ready


def test_of_a_queue_that_drops_it_waits_for_the_news_too() -> None:
    two = TwoMachines([QueuePlan("q", 2, "drop_oldest", 0.0, "news"), QueuePlan("news", 2)])
    two.settle()
    assert readable(two.head) == ["news", "q"]
    two.head.queue().close()
    two.settle()
    assert readable(two.head) == ["news"]
    two.head.queue("news").close()
    two.settle()
    assert (readable(two.head), two.far.heard.ended) == ([], ["q"])


@pytest.mark.parametrize(
    ("age", "is_slow"), [(1e6, True), (0.0, False)], ids=["messages_grow_too_old", "messages_are_taken"]
)
def test_room_that_comes_without_a_bell_is_looked_for(age: float, is_slow: bool) -> None:
    lossy = [QueuePlan("q", 1, "max_age", age, "news"), QueuePlan("news", 2)]
    two = TwoMachines(lossy if age else [QueuePlan("q", 1)])
    for trans_id in (1, 2):
        two.head.put(trans_id)
        two.settle()
    assert (writable(two.far), two.far.mover.waits().timeout < 0.5) == (["q"], is_slow)


@pytest.mark.parametrize("error", [None, PeerGoneError("gone")])
def test_without_a_link_nothing_leaves(error: PeerGoneError | None) -> None:
    two = TwoMachines([QueuePlan("q", 1)])
    two.settle()
    two.head.receiver.ended(error)
    before = len(two.head.link.sent)
    two.head.put(1)
    two.head.mover.turn()
    assert (readable(two.head), len(two.head.link.sent)) == ([], before)
    assert two.head.heard.failed == ([] if error is None else [error])


def test_what_arrived_before_the_link_was_lost_still_gets_into_its_queue() -> None:
    two = TwoMachines([QueuePlan("q", 1)])
    for trans_id in (1, 2):
        two.head.put(trans_id)
        two.settle()
    two.far.receiver.ended(PeerGoneError("gone"))
    got = []
    for _ in range(2):
        two.far.mover.turn()
        got += two.far.taken()
    assert got == [1, 2]


def test_after_a_shortage_messages_are_received_into_the_group_again() -> None:
    two = TwoMachines([QueuePlan("q", 8)], memory=(1 << 20, 64 << 10))
    hog = two.far.group.alloc(56 << 10)
    two.head.put(1, 2, value=np.zeros(20 << 10, np.uint8))
    two.settle()
    hog.release()
    two.settle()
    assert two.far.taken() == [1, 2]
    two.head.put(3)
    two.head.mover.turn()
    while two.head.link.travel(two.far.receiver):
        pass
    assert two.far.in_use == 1
