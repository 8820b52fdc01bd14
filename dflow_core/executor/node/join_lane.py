"""The short way through a node with several inputs: plain tensors that belong together, arrays out.

Plain messages are paired here by transaction and label. As soon as anything else arrives (a skip, an error, a batch,
the end of a stream), what waits here goes to the runner's aligner, and everything behind it too until nothing waits
there: a message is always in one of the two, so none can miss its partner.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from dflow_core.errors import ClosedError, TensorError
from dflow_core.executor.meter import BLOCKED, BUSY, CALLS, SINCE, TRANS_ID
from dflow_core.executor.node.fast_lane import FastLane, LaneIo
from dflow_core.executor.node.node_runner import NodeRunner
from dflow_core.message import Block, label_of
from dflow_core.spi import Doorbell
from dflow_core.types import Array


class JoinLane(FastLane):
    """Runs a node whose only function takes an array from each of several inputs.

    Args:
        runner: The node's runner.
        call: The function, as `runner.direct_call` gives it.
        io: Queues and memory.
        doorbell: Where to wait for the queues.
    """

    def __init__(self, runner: NodeRunner, call: Callable[..., object], io: LaneIo, doorbell: Doorbell) -> None:
        super().__init__(runner, call, io)
        self._doorbell = doorbell
        self._cancelled = runner.unwanted.words
        self._rows: dict[tuple[int, int], list[tuple[Block, Array] | None]] = {}

    def run(self, patience: float) -> None:
        open_ports = dict(enumerate(self._io.sources))
        gate = self._io.gate
        while open_ports and not gate.stopping:
            took = False
            for port, queue in list(open_ports.items()):
                try:
                    block = queue.get(0.0)
                except ClosedError:
                    del open_ports[port]
                    took = True  # look again at once: there may be no port left to wait for
                    continue
                if block is not None:
                    took = True
                    if gate.enter():
                        self._take(port, block)
                    del block  # nothing but a row may hold a message while this waits
            gate.busy = False
            if not took:
                self._doorbell.wait(list(open_ports.values()), timeout=patience)
                if self._cancelled[0] and gate.enter():
                    self._let_go()

    def clear(self) -> bool:
        rows, self._rows = self._rows, {}
        return bool(rows)

    def _take(self, port: int, block: Block) -> None:
        try:
            plain = self._io.group.peek(block)
        except TensorError:  # a broken message: the runner says so
            plain = None
        if (
            plain is None or not self._runner.may_pair_outside(plain[0])
            or (self._cancelled[0] and self._runner.is_cancelled(plain[0]))
        ):
            self._hand_over(port, block)
            return
        key = plain[0], label_of(block)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = [None] * len(self._io.sources)
        elif row[port] is not None:  # the same once more; the aligner keeps them in order
            self._hand_over(port, block)
            return
        row[port] = block, plain[1]
        parts = [part for part in row if part is not None]
        if len(parts) == len(row):
            del self._rows[key]
            self._runner.note_pair(key)
            self._work(key[0], [part[0] for part in parts], [part[1] for part in parts])

    def _hand_over(self, port: int, block: Block) -> None:
        """Give the runner everything that waits here, and a message."""
        self._hand_over_rows()
        self._io.accept(port, block)

    def _hand_over_rows(self) -> None:
        rows, self._rows = self._rows, {}
        for row in rows.values():
            for place, part in enumerate(row):
                if part is not None:
                    self._io.accept(place, part[0])

    def _let_go(self) -> None:
        """Free what waits of transactions that were cancelled: the runner does it."""
        if any(self._runner.is_cancelled(trans_id) for trans_id, _ in self._rows):
            self._hand_over_rows()
        self._runner.let_go()

    def _work(self, trans_id: int, blocks: list[Block], arrays: list[Array]) -> None:
        runner, first = self._runner, arrays[0]
        ints, floats = runner.meter.ints, runner.meter.floats
        shape, dtype, started = first.shape, first.dtype, time.monotonic()
        runner.current = trans_id, started
        ints[TRANS_ID], floats[SINCE] = trans_id, started
        try:
            result = self._call(*arrays)
        except BaseException as error:  # as in the runner
            self._conclude(blocks, started, error=error)
            return
        same = first.shape == shape and first.dtype is dtype and first.flags.c_contiguous
        ended = self._send(blocks[0], result, first if same else None)
        if ended < 0:
            self._conclude(blocks, started, result=result)
            return
        runner.calls += 1
        runner.busy += ended - started
        runner.blocked += time.monotonic() - ended
        runner.current = None
        ints[CALLS], floats[BUSY], floats[BLOCKED], floats[SINCE] = runner.calls, runner.busy, runner.blocked, 0.0
