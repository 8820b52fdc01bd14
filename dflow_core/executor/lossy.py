"""Queues that may drop messages, as executors and callers see them: every dropped message still ends its transaction.

Beside such a queue lies another one, for notices: whoever displaces a message sends the reader a skip with the same
key and token there, so that joins, batches and the caller learn that nothing will come. Messages without data (skips,
errors, ends) take that way too: they must not be dropped, nor take the place of one with data. Where the reader is so
far behind that even the notices find no room, they are put together into few messages, and wait at the sender: it
never waits for them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from dflow_core.errors import ClosedError, PoolExhaustedError, QueueFullError
from dflow_core.message import Aux, Block, DataFlag, ErrorInfo, FlowMsg, HeapBlock, Member, MsgInfo, seal
from dflow_core.spi import MemoryGroup, Queue

NOTICE_SLICE = 0.02
"""Seconds of a wait while notices wait for room."""
_MOST_MEMBERS = 64
DROPPED = "dropped"
"""Kind of the reason that a notice carries."""


def notice_of(msg: FlowMsg, queue: str) -> FlowMsg:
    """What the reader of a queue gets instead of a message that the queue dropped; one without data goes on as it is.

    Args:
        msg: The message.
        queue: Name of the queue.
    """
    if has_no_data(msg):
        return FlowMsg(msg.info, None, msg.aux)
    flags = DataFlag.SKIP | DataFlag.NULL | DataFlag.INJECTED
    info = replace(msg.info, data_flag=msg.info.data_flag | flags)
    reason = ErrorInfo(DROPPED, f"queue {queue!r} dropped a message of it", node=queue)
    return FlowMsg(info, None, Aux(msg.aux.members, reason))


def has_no_data(msg: FlowMsg) -> bool:
    """Whether a message says something that must not be dropped: a skip, an error, an end."""
    return not msg.is_data or msg.is_null


def merged(first: FlowMsg, second: FlowMsg) -> FlowMsg | None:
    """Two notices in one; None if that cannot be: one says more than skip, or they are too many."""
    plain = all(msg.info.data_flag & DataFlag.SKIP and _is_dropped(msg) for msg in (first, second))
    members = {m.info.key: m for msg in (first, second) for m in (Member(msg.info), *msg.aux.members)}
    if not plain or len(members) > _MOST_MEMBERS or first.info.key == second.info.key:
        return None
    return FlowMsg(first.info, None, Aux(tuple(members.values()), first.aux.error))


def split(msg: FlowMsg) -> list[FlowMsg]:
    """The single notices that one stands for; what is no notice stays whole."""
    if not _is_dropped(msg) or not msg.info.data_flag & DataFlag.SKIP:
        return [msg]
    flags = DataFlag.SKIP | DataFlag.NULL | DataFlag.INJECTED
    heads = {msg.info.key: msg.info} | {
        m.info.key: replace(m.info, data_flag=m.info.data_flag | flags)
        for m in msg.aux.members if m.info.key != msg.info.key
    }
    return [FlowMsg(info, None, Aux(error=msg.aux.error)) for info in heads.values()]


def _is_dropped(msg: FlowMsg) -> bool:
    return msg.aux.error is not None and msg.aux.error.kind == DROPPED


class LossySender(Queue):
    """A lossy queue, for those who put into it. Thread-safe.

    Args:
        queue: The queue.
        notices: The queue of its notices.
        alloc: Gives blocks at once, or raises PoolExhaustedError.
        is_full: Whether `put` would have to wait.
    """

    def __init__(
        self, queue: Queue, notices: Queue, alloc: Callable[[int], Block], is_full: Callable[[], bool]
    ) -> None:
        self.name, self.depth = queue.name, queue.depth
        self.queue, self._notices, self._alloc, self._is_full = queue, notices, alloc, is_full
        self._backlog: deque[Block] = deque()
        self._lock = threading.Lock()

    @property
    def pending(self) -> bool:
        """Whether notices wait for room; `flush` sends them when there is some."""
        return bool(self._backlog)

    def put(self, block: Block, timeout: float | None = None) -> None:
        if has_no_data(FlowMsg(MsgInfo.unpack(block.array())[0])):
            with self._lock:
                self._backlog.append(block)
            self.flush()
            return
        try:
            self.queue.put(block, timeout)
        finally:
            dropped = self.queue.take_dropped()
            if dropped or self._backlog:
                with self._lock:
                    for one in dropped:
                        self._tell(one)
                self.flush()

    def get(self, timeout: float | None = None) -> Block | None:
        return self.queue.get(timeout)

    def flush(self) -> None:
        """Send the notices there is room for."""
        with self._lock:
            while self._backlog:
                try:
                    self._notices.put(self._backlog[0], 0.0)
                except QueueFullError:
                    return
                except ClosedError:  # the graph ends
                    self._backlog.clear()
                    return
                self._backlog.popleft()

    def level(self) -> int:
        """How full it is for a producer: one that makes room by dropping counts as empty."""
        return self.depth if self._is_full() else 0

    def close(self) -> None:
        self.queue.close()

    def _tell(self, block: Block) -> None:
        """Keep a notice of a dropped message; with the lock held. The message is held until its notice is."""
        msg = FlowMsg.from_block(block)
        notice = notice_of(msg, self.name)
        last = FlowMsg.from_block(self._backlog[-1]) if self._backlog else None
        both = merged(last, notice) if last is not None and last.body is None else None
        try:
            made = seal(both or notice, self._alloc).block
        except PoolExhaustedError:
            self._backlog.append(block)  # the reader makes a notice of it
            return
        assert made is not None
        if both is not None:
            self._backlog[-1] = made
        else:
            self._backlog.append(made)


class LossyReader(Queue):
    """A lossy queue with its notices, for the one thread that reads it.

    Args:
        queue: The queue.
        notices: The queue of its notices.
        alloc: Gives blocks at once, or raises PoolExhaustedError.
    """

    def __init__(self, queue: Queue, notices: Queue, alloc: Callable[[int], Block]) -> None:
        self.name, self.depth = queue.name, queue.depth
        self._queue, self._alloc = queue, alloc
        self._open = [notices, queue]
        self._parts: deque[Block] = deque()

    @property
    def open_queues(self) -> Sequence[Queue]:
        """What to wait for."""
        return self._open

    def get(self, timeout: float | None = None) -> Block | None:
        """The next message or notice, if there is one now; `timeout` is not waited for."""
        if self._parts:
            return self._parts.popleft()
        for queue in list(self._open):
            block = self._taken(queue)
            if block is not None:
                return block
        if not self._open:
            raise ClosedError(f"queue {self.name!r} is closed")
        return None

    def _taken(self, queue: Queue) -> Block | None:
        try:
            block = queue.get(0.0)
        except ClosedError:
            self._open.remove(queue)
            block = None
        if queue is not self._queue:
            if block is None:
                return None
            self._give_parts([block])
            return self._parts.popleft()
        self._give_parts(queue.take_dropped())
        if block is None:
            return self._parts.popleft() if self._parts else None
        return block

    def _give_parts(self, blocks: Iterable[Block]) -> None:
        """Have notices of blocks given out one by one. What waits in a join must lie in the group, as messages do: if
        this process dies, the supervisor finds it there.
        """
        for block in blocks:
            msg = FlowMsg.from_block(block)
            parts = split(notice_of(msg, self.name))
            if len(parts) == 1 and has_no_data(msg):
                self._parts.append(block)
                continue
            for part in parts:
                try:
                    made = seal(part, self._alloc).block
                except PoolExhaustedError:
                    made = seal(part, HeapBlock).block
                assert made is not None
                self._parts.append(made)

    def put(self, block: Block, timeout: float | None = None) -> None:
        self._queue.put(block, timeout)

    def level(self) -> int:
        return len(self._parts) + sum(queue.level() for queue in self._open)

    def close(self) -> None:
        self._queue.close()


def sender(group: MemoryGroup, name: str, notices: Mapping[str, str], max_age: float = 0.0) -> Queue:
    """A queue of a group, for those who put into it.

    Args:
        group: The memory group.
        name: Name of the queue.
        notices: For each lossy queue, the queue of its notices.
        max_age: Seconds after which the queue drops a message; 0 where age does not matter.
    """
    queue = group.queue(name)
    if name not in notices:
        return queue

    def is_full() -> bool:
        if not max_age or queue.level() < queue.depth:
            return False
        return not any(q.oldest_age > max_age for q in group.stats().queues if q.name == name)

    return LossySender(queue, group.queue(notices[name]), lambda size: group.alloc(size, 0.0), is_full)


def reader(group: MemoryGroup, name: str, notices: Mapping[str, str]) -> Queue:
    """A queue of a group, for the one who takes from it."""
    queue = group.queue(name)
    if name not in notices:
        return queue
    return LossyReader(queue, group.queue(notices[name]), lambda size: group.alloc(size, 0.0))


def waitable(queues: Iterable[Queue]) -> list[Queue]:
    """The transport's own queues behind some, for a doorbell."""
    found: list[Queue] = []
    for queue in queues:
        if isinstance(queue, LossyReader):
            found += queue.open_queues
        else:
            found.append(queue.queue if isinstance(queue, LossySender) else queue)
    return found


def flush(queues: Iterable[Queue]) -> bool:
    """Send notices that wait at senders; whether some still wait."""
    waiting = [queue for queue in queues if isinstance(queue, LossySender) and queue.pending]
    for queue in waiting:
        queue.flush()
    return any(queue.pending for queue in waiting)
