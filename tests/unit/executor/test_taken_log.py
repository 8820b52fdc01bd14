"""What is remembered of the messages a function with queues takes, and what holds memory because of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from dflow_core.executor.streams.taken_log import TakenLog
from dflow_core.message import FlowMsg, HeapBlock, MsgInfo, encode


@dataclass
class Book:
    """What the function owes, and what it has sent; the messages are numbered by transaction."""

    owed: set[tuple[int, int]] = field(default_factory=set)
    answers: int = 0
    log: TakenLog = field(init=False)
    given: dict[int, FlowMsg] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = TakenLog(self.owed.__contains__, most=3, most_bytes=10_000)

    def take(self, trans_id: int, port: int = 0, size: int = 1) -> None:
        msg = encode(np.full(size, trans_id, np.uint8), MsgInfo(trans_id=trans_id), HeapBlock)
        self.given[trans_id] = msg
        self.owed.add(msg.info.key)
        self.log.take(port, msg, self.answers)

    def skip(self, trans_id: int) -> None:
        self.owed.discard((trans_id, 0))

    def answer(self, *trans_ids: int) -> None:
        self.answers += 1
        for trans_id in trans_ids:
            self.skip(trans_id)

    @property
    def seen(self) -> list[int]:
        return [msg.info.trans_id for _, msg in self.log.taken]

    def is_copy(self, trans_id: int) -> bool:
        return all(msg is not self.given[trans_id] for _, msg in self.log.taken)


CASES = {
    "what is owed is there in the order it was taken": ("t1 t2 t3", [1, 2, 3]),
    "an answer ends what it answers when the next is taken": ("t1 a1 t2", [2]),
    "until then it may be what fails": ("t1 a1", [1]),
    "an answer leaves what else is owed": ("t1 t2 t3 a2 t4", [1, 3, 4]),
    "a window: what is skipped since the last answer stays": ("t1 s1 t2 s2 t3", [1, 2, 3]),
    "and goes with the next answer": ("t1 s1 t2 s2 t3 a3 t4", [4]),
    "of what is skipped the newest three stay": ("t1 s1 t2 s2 t3 s3 t4 s4 t5 s5 t6", [3, 4, 5, 6]),
    "what is owed is beside them": ("t1 t2 s2 t3 s3 t4 s4 t5 s5 t6", [1, 3, 4, 5, 6]),
    "nothing that was answered is held while it waits": ("t1 t2 a2 w", [1]),
    "the end of a call is the end of it": ("t1 t2 c t3", [3]),
}


@pytest.mark.parametrize(("steps", "seen"), CASES.values(), ids=CASES.keys())
def test_what_is_remembered(steps: str, seen: list[int]) -> None:
    book = Book()
    for step in steps.split():
        what, number = step[0], int(step[1:] or 0)
        if what == "c":
            book.log.clear()
        elif what == "w":
            book.log.settle(book.answers)
        else:
            {"t": book.take, "s": book.skip, "a": book.answer}[what](number)
    assert book.seen == seen


def test_what_is_owed_is_no_copy_and_what_is_not_lets_its_block_go() -> None:
    book = Book()
    book.take(1)
    book.take(2)
    assert not book.is_copy(1)
    book.skip(1)
    book.take(3)
    assert book.is_copy(1) and not book.is_copy(2) and book.seen == [1, 2, 3]
    msg = book.log.taken[0][1]
    assert msg.body is not None and np.array_equal(msg.body, book.given[1].body)
    before = book.log.taken[0][1]
    book.take(4)
    assert book.log.taken[0][1] is before, "copied once"


@pytest.mark.parametrize(
    ("sizes", "seen"), [((1, 1, 1), [1, 2, 3, 9]), ((9000, 1, 1), [2, 3, 9]), ((1, 20_000, 1), [3, 9])]
)
def test_big_messages_that_are_not_owed_are_not_kept(sizes: tuple[int, ...], seen: list[int]) -> None:
    book = Book()
    for number, size in enumerate(sizes, 1):
        book.take(number, size=size)
        book.skip(number)
    book.take(9, size=50_000)
    assert book.seen == seen


def test_inputs_are_remembered_with_the_messages() -> None:
    book = Book()
    book.take(1, port=1)
    book.take(2, port=0)
    assert [(port, msg.info.trans_id) for port, msg in book.log.taken] == [(1, 1), (0, 2)]
