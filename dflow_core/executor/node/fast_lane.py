"""The short way through a node, for the messages that nearly all are: one plain tensor in, arrays out.

A node runner does all that a message may need, and takes many times as long as a small function. Here a plain message
goes from the queue to the function and on, with nothing in between, and everything else is handed to the runner:
messages that are not plain before their call, calls that failed or gave something else than arrays after it. So what
leaves a node is the same either way, byte for byte; `tests/unit/executor/test_fast_lane.py` compares them.

The reference that came from the input queue is held until the outputs are in their queues, or is the one that goes on:
a process that dies in between has lost the message, and the supervisor finds that it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import Final

import numpy as np

from dflow_core.errors import ClosedError, PoolExhaustedError, TensorError
from dflow_core.executor.gate import Gate
from dflow_core.executor.meter import BLOCKED, BUSY, CALLS, SINCE, TRANS_ID
from dflow_core.executor.node.node_runner import NodeRunner
from dflow_core.message import PLAIN_KINDS, Block, FlowMsg, block_of
from dflow_core.spi import MemoryGroup, Queue
from dflow_core.types import Array


@dataclass(frozen=True, slots=True)
class LaneIo:
    """What a lane takes from and gives to.

    Args:
        group: Memory of the queues.
        sources: The input queue of each argument.
        targets: For each output of the function, the queues its messages go to; empty where `pick` says.
        put: Puts a block into a queue, and waits as long as that takes.
        accept: Takes a block the lane cannot carry, before its call, and the argument it was for.
        check: Called after what the runner did for the lane; may raise.
        gate: Stops it, for a while or for good.
        pick: Gives the queues that messages like a block go to, for each output, where that depends on the message.
    """

    group: MemoryGroup
    sources: Sequence[Queue]
    targets: Sequence[Sequence[Queue]]
    put: Callable[[Queue, Block], None]
    accept: Callable[[int, Block], None]
    check: Callable[[], None]
    gate: Gate
    pick: Callable[[Block], Sequence[Sequence[Queue]]] | None = None


class FastLane:
    """Runs a node whose only function takes one array.

    Args:
        runner: The node's runner.
        call: The function, as `runner.direct_call` gives it.
        io: Queues and memory.
    """

    def __init__(self, runner: NodeRunner, call: Callable[..., object], io: LaneIo) -> None:
        self._runner = runner
        self._call = call
        self._io = io
        self._only = io.targets[0][0] if len(io.targets) == 1 and len(io.targets[0]) == 1 else None

    def run(self, patience: float) -> None:
        """Work until the input queue is closed and empty, or the instance is stopping.

        Args:
            patience: Seconds of one wait for a message.
        """
        io, runner, call, clock, only = self._io, self._runner, self._call, time.monotonic, self._only
        get, peek, put, gate = io.sources[0].get, io.group.peek, io.put, io.gate
        block: Block | None
        ints, floats, cancelled = runner.meter.ints, runner.meter.floats, runner.unwanted.words
        array: Array | None
        while not gate.stopping:
            array = result = plain = block = None  # nothing may hold a message while this waits
            try:
                block = get(patience)
                plain = peek(block) if block is not None else None
            except ClosedError:
                return
            except TensorError:
                pass  # a broken message: the runner says so
            if block is None:
                continue
            if plain is None or (cancelled[0] and runner.is_cancelled(plain[0])):
                plain = None
                io.accept(0, block)
                continue
            trans_id, array = plain
            plain = None
            shape, dtype, started = array.shape, array.dtype, clock()
            runner.current = trans_id, started
            ints[TRANS_ID], floats[SINCE] = trans_id, started
            if gate.raised and not (started := self._wait()):
                continue
            try:
                result = call(array)
            except BaseException as error:  # as in the runner
                self._conclude([block], started, error=error)
                continue
            # User code may have given the array another shape or dtype in place.
            same = array.shape == shape and array.dtype is dtype and array.flags.c_contiguous
            if result is array and same and only is not None:
                array = result = None
                ended = clock()
                put(only, block if getrefcount(block) == _ALONE else block.retain())
            else:
                ended = self._send(block, result, array if same else None)
                if ended < 0:
                    self._conclude([block], started, result=result)
                    continue
            runner.calls += 1
            runner.busy += ended - started
            runner.blocked += clock() - ended
            runner.current = None
            ints[CALLS], floats[BUSY], floats[BLOCKED], floats[SINCE] = runner.calls, runner.busy, runner.blocked, 0.0

    def clear(self) -> bool:
        """Throw away what waits here; whether there was anything. The thread of the lane must be at the gate."""
        return False

    def _wait(self) -> float:
        """Wait at the gate before a call; when it begins, or 0 if it does not."""
        runner, (trans_id, _) = self._runner, self._runner.current or (0, 0.0)
        runner.current, runner.meter.floats[SINCE] = None, 0.0
        started = time.monotonic() if self._io.gate.park() else 0.0
        if started:
            runner.current, runner.meter.floats[SINCE] = (trans_id, started), started
        self._io.gate.busy = False
        return started

    def _send(self, block: Block, result: object, same: Array | None) -> float:
        """Send what the function gave, if it is arrays only; gives when it began to put them into queues, or -1.

        Args:
            block: What came in, for the first argument.
            result: What the function gave.
            same: The array of `block`, which may go as it lies; None if it was changed.
        """
        targets = self._io.targets if self._io.pick is None else self._io.pick(block)
        values = (result,) if len(targets) == 1 else result
        if not isinstance(values, tuple) or len(values) != len(targets):
            return -1.0
        made: list[Block] = []
        for value in values:
            one = block.retain() if value is same is not None else self._copied(block, value)
            if one is None:
                return -1.0
            made.append(one)
        began = time.monotonic()
        for one, queues in zip(made, targets):
            copies = [one.retain() for _ in queues[1:]]
            for queue, reference in zip(queues, [*copies, one]):
                self._io.put(queue, reference)
        return began

    def _copied(self, head: Block, value: object) -> Block | None:
        """A block with a value as the runner would send it; None if the runner has to do that."""
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if type(value) is not np.ndarray or value.dtype.kind not in PLAIN_KINDS:
            return None
        if value.base is not None and block_of(value) is not None:
            return None  # it may go as it lies
        try:
            return self._io.group.alloc_like(head, value)
        except (PoolExhaustedError, TensorError):  # the runner waits for memory, or says what is wrong
            return None

    def _conclude(
        self, blocks: Sequence[Block], started: float, result: object = None, error: BaseException | None = None
    ) -> None:
        self._runner.conclude([FlowMsg.from_block(block) for block in blocks], started, result, error)
        self._io.check()


def _count_alone() -> int:
    block = object()
    return getrefcount(block)


_ALONE: Final = _count_alone()
"""What `getrefcount` says of an object that nothing but one variable holds."""
