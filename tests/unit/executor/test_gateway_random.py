"""Two gateways under random puts, takes, closes and shortage of memory, step by step."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dflow_core.message import Block, decode
from dflow_core.model import QueuePlan
from tests.unit.executor.machines import End, TwoMachines

OUT, BACK = "out", "back"
NAMES = (OUT, BACK)
MEMORY = 256 << 10


class Machines(RuleBasedStateMachine):
    """Every message arrives once, in order and whole; never more than the window is on the way; the end comes last."""

    @initialize(depths=st.tuples(st.integers(1, 12), st.integers(1, 12)))
    def begin(self, depths: tuple[int, int]) -> None:
        self.two = TwoMachines([QueuePlan(*pair) for pair in zip(NAMES, depths)], back=[BACK], memory=(MEMORY, MEMORY))
        self.window = {name: min(depth, 8) for name, depth in zip(NAMES, depths)}
        self.depth = dict(zip(NAMES, depths))
        self.sent = dict.fromkeys(NAMES, 0)
        self.got = dict.fromkeys(NAMES, 0)
        self.closed: set[str] = set()
        self.hogs: list[Block] = []
        self.rooms: dict[tuple[str, int], memoryview] = {}

    def source(self, name: str) -> End:
        return self.two.head if name == OUT else self.two.far

    def target(self, name: str) -> End:
        return self.two.far if name == OUT else self.two.head

    @rule(name=st.sampled_from(NAMES), size=st.integers(0, 20000))
    def put(self, name: str, size: int) -> None:
        source = self.source(name)
        stats = source.group.stats()
        if name in self.closed or source.queue(name).level() == self.depth[name]:
            return
        if stats.bytes_in_use + size + 8192 > MEMORY:
            return
        self.sent[name] += 1
        source.put(self.sent[name], queue=name, value=np.full(size, self.sent[name] % 256, np.uint8))

    @rule(name=st.sampled_from(NAMES))
    def take(self, name: str) -> None:
        for msg in self.target(name).messages(name):
            self.got[name] += 1
            assert msg.info.trans_id == self.got[name]
            value = decode(msg)
            assert isinstance(value, np.ndarray)
            assert (value == self.got[name] % 256).all()

    @rule(name=st.sampled_from(NAMES))
    def close(self, name: str) -> None:
        self.closed.add(name)
        self.source(name).queue(name).close()

    @rule(at_head=st.booleans())
    def turn(self, at_head: bool) -> None:
        end = self.two.head if at_head else self.two.far
        end.mover.turn()

    @rule(at_head=st.booleans(), which=st.integers(0, 3))
    def travel(self, at_head: bool, which: int) -> None:
        end, other = self.two.ends[0 if at_head else 1]
        lanes = end.link.waiting()
        if lanes:
            end.link.travel(other.receiver, lanes[which % len(lanes)])

    @precondition(lambda self: len(self.hogs) < 2)
    @rule(at_head=st.booleans())
    def hog(self, at_head: bool) -> None:
        group = (self.two.head if at_head else self.two.far).group
        stats = group.stats()
        if stats.bytes_in_use < MEMORY - 4096:
            self.hogs.append(group.alloc((MEMORY - stats.bytes_in_use) & ~4095))

    @precondition(lambda self: self.hogs)
    @rule()
    def let_go(self) -> None:
        self.hogs.pop().release()

    @rule()
    def settle(self) -> None:
        self.two.settle()

    @invariant()
    def never_more_than_the_window_on_the_way(self) -> None:
        for name in NAMES:
            queued = self.source(name).queue(name).level() + self.target(name).queue(name).level()
            assert 0 <= self.sent[name] - self.got[name] - queued <= self.window[name]

    @invariant()
    def the_end_comes_last(self) -> None:
        for name in NAMES:
            told = self.target(name).heard.ended.count(name)
            assert told <= (name in self.closed)
            if told:
                assert self.sent[name] == self.got[name] + self.target(name).queue(name).level()

    def teardown(self) -> None:
        if not hasattr(self, "two"):
            return
        while self.hogs:
            self.let_go()
        for name in NAMES:
            self.close(name)
        for _ in range(60):
            self.settle()
            for name in NAMES:
                self.take(name)
        assert self.got == self.sent
        assert (self.two.far.heard.ended, self.two.head.heard.ended) == ([OUT], [BACK])
        for end, _ in self.two.ends:
            assert (end.in_use, end.heard.failed) == (0, [])


TestMachines = Machines.TestCase
TestMachines.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)
