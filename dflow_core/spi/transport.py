"""What carries messages between the processes of one machine.

A memory group is one anonymous shared region with everything in it: blocks, queues, doorbells and the table of
members (processes attached to it). Exactly one member creates it and owns its end; the others attach through a
handle and an inherited file descriptor. Nothing of it has a name in a file system.

Rules every implementation keeps (`dflow_core.testing.transport_contract` tests them):

- A block is reference counted. Who allocates, dequeues or retains a block holds a reference; `put` hands the
  caller's reference on to the queue. Arrays made from a block hold it until the last of them is gone.
- References belong to members. When a member dies, `reclaim` takes back all it held and says which messages
  those were, and from which queue they came.
- Queues are bounded, first in first out, for any number of producers and consumers. `Overflow` says what a full
  queue does; the default blocks.
- Every wait has a limit. It ends early when the queue is closed.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dflow_core.message import Block, copy_like, peek_plain
from dflow_core.spi.native_table import NativeTable
from dflow_core.types import Array


class Overflow(enum.Enum):
    """What `put` does when the queue is full.

    `KEEP_LATEST` holds one message whatever the depth: a new one takes the place of the old one. `MAX_AGE` blocks like
    `BLOCK`, but messages that have lain longer than the queue's `max_age` are dropped, by `put` to make room and by
    `get` instead of being delivered.
    """

    BLOCK = "block"
    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    KEEP_LATEST = "keep_latest"
    MAX_AGE = "max_age"


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """How a memory group is made.

    Args:
        memory_limit: Most bytes of blocks that may exist at once; 0 lets the transport choose from this machine.
        max_blocks: Most blocks that may exist at once.
        max_members: Most processes attached at once.
        max_queues: Most queues.
        spin_us: Microseconds to look again before sleeping, while the other end runs on another CPU; 0 is better where
            many more processes than CPUs take turns.
    """

    memory_limit: int = 0
    max_blocks: int = 16384
    max_members: int = 128
    max_queues: int = 1024
    spin_us: int = 5


@dataclass(frozen=True, slots=True)
class GroupHandle:
    """How another process attaches to a group: small data to send, and descriptors to pass along with it.

    Args:
        scheme: Transport scheme.
        token: What `attach` needs besides the descriptors.
        fds: File descriptors to inherit or pass; their numbers in the receiving process are given to `attach`.
    """

    scheme: str
    token: bytes
    fds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LostMessage:
    """A message that a dead member held.

    Args:
        head: Its 256 byte head.
        aux: Its aux section (`dflow_core.message.Aux`), as bytes.
        queue: Name of the queue it was last taken from; "" if the member had made it and not sent it.
    """

    head: bytes
    aux: bytes
    queue: str


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Counters of one queue since it was made: sent = delivered + dropped + failed + level.

    Args:
        name: Its name.
        depth: Most messages in it.
        level: Messages in it.
        sent: Messages put, those that were dropped at once included.
        delivered: Messages taken by members that live or gave back what they held.
        dropped: Messages that gave way to others or grew too old.
        failed: Messages taken by members that died holding them.
        oldest_age: Seconds the oldest message has lain in it; 0 if it is empty.
        blocked: Seconds producers have waited for room.
        waiting: Seconds consumers have waited for messages.
    """

    name: str
    depth: int
    level: int
    sent: int
    delivered: int
    dropped: int
    failed: int = 0
    oldest_age: float = 0.0
    blocked: float = 0.0
    waiting: float = 0.0


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds blocks: a member (pid) or a queue (pid 0)."""

    label: str
    pid: int
    blocks: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GroupStats:
    """Use of a memory group.

    Args:
        blocks_in_use: Blocks somebody holds.
        bytes_in_use: Their bytes.
        bytes_backed: Bytes of memory the group has taken from the machine.
        memory_limit: Most bytes it may take.
        holders: Who holds the blocks, largest first.
        queues: One entry for each queue.
    """

    blocks_in_use: int
    bytes_in_use: int
    bytes_backed: int
    memory_limit: int
    holders: tuple[Holder, ...] = field(default=())
    queues: tuple[QueueStats, ...] = field(default=())


class Queue(abc.ABC):
    """One bounded queue of a memory group. Thread-safe; any number of producers and consumers."""

    name: str
    depth: int

    @abc.abstractmethod
    def put(self, block: Block, timeout: float | None = None) -> None:
        """Send a block; the caller's reference goes to the queue.

        Keep a reference with `block.retain()` first to go on using it, or to put it into several queues.

        Args:
            block: A block of the same group.
            timeout: Seconds to wait for room; None waits until there is room or the queue is closed; 0 tries once.

        Raises:
            QueueFullError: no room within the limit; the caller still holds the block.
            ClosedError: the queue was closed.
        """

    @abc.abstractmethod
    def get(self, timeout: float | None = None) -> Block | None:
        """Take the oldest block, or None if there is none within the limit (seconds; None waits, 0 tries once).

        Raises:
            ClosedError: the queue is closed and empty.
        """

    def take_dropped(self) -> list[Block]:
        """The blocks that this member's own `put` and `get` displaced since the last call, oldest first.

        The caller holds them, and ends their transactions. Until then they count as held by this member. A queue that
        never gives way, such as one of the core around another, need not have this.
        """
        return []

    @abc.abstractmethod
    def level(self) -> int:
        """How many blocks are in it now."""

    @abc.abstractmethod
    def close(self) -> None:
        """Refuse further puts and wake everybody; what is in it can still be taken. Idempotent."""


class Doorbell(abc.ABC):
    """Lets one thread of one member wait for many queues at once."""

    @abc.abstractmethod
    def wait(self, readable: Sequence[Queue], writable: Sequence[Queue] = (), timeout: float | None = None) -> bool:
        """Sleep until a queue of `readable` has a block or is closed, or one of `writable` has room or is closed.

        Returns:
            True if there is something to do; False when the limit (seconds) passed. May return True early.
        """

    @abc.abstractmethod
    def ring(self) -> None:
        """Wake the thread that waits, or make its next wait return at once. Any thread of this process may call."""


class MemoryGroup(abc.ABC):
    """A member's view of one shared region. Thread-safe."""

    @abc.abstractmethod
    def alloc(self, size: int, timeout: float | None = 0.0) -> Block:
        """A block of at least `size` bytes, writable, held once by the caller; its content is undefined.

        Raises:
            PoolExhaustedError: no memory within the limit (seconds); names the largest holders. At once, with
                `never_fits` set, if the block is larger than all the memory of the group.
        """

    def peek(self, block: Block) -> tuple[int, Array] | None:
        """Transaction id and read-only array of a plain tensor message, None for others: see `peek_plain`."""
        return peek_plain(block)

    def alloc_like(self, head: Block, array: Array, timeout: float | None = 0.0) -> Block:
        """A block with the head of a plain tensor message and another array, copied in: see `copy_like`.

        Args:
            head: A block for which `peek` gives a tensor.
            array: Any layout; any dtype a tensor can have but strings.
            timeout: As for `alloc`.

        Raises:
            PoolExhaustedError: as `alloc`.
            TensorError: the dtype cannot be sent.
        """
        return copy_like(head, array, lambda size: self.alloc(size, timeout))

    @abc.abstractmethod
    def owns(self, block: Block) -> bool:
        """Whether a block is this member's to put into a queue of this group."""

    @abc.abstractmethod
    def create_queue(
        self, name: str, depth: int, overflow: Overflow = Overflow.BLOCK, max_age: float = 0.0
    ) -> Queue:
        """Make a queue (owner only).

        Args:
            name: Any text up to 255 bytes of UTF-8, unique in the group.
            depth: Most messages in it, from 1.
            overflow: What a full queue does.
            max_age: Seconds after which a message is dropped, more than 0, for `Overflow.MAX_AGE`.
        """

    @abc.abstractmethod
    def queue(self, name: str) -> Queue:
        """The queue of that name, as seen from this member.

        Raises:
            UsageError: there is none of that name; lists near names.
        """

    @abc.abstractmethod
    def board(self, name: str, words: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Counters of that name, shared by all members and zero at first; the first to ask makes them.

        One member writes, anybody reads: a word is written whole. They live as long as the group.

        Args:
            name: As for a queue, but apart from their names.
            words: How many 64 bit words.

        Raises:
            UsageError: it has another number of words, or there is no room for one more.
        """

    def native_table(self) -> NativeTable | None:
        """The group as native code sees it (`dflow/transport.h`), or None if this transport is not native.

        Block keys and queue numbers of the table are those of `Block` objects only where the transport says so.
        """
        return None

    @abc.abstractmethod
    def doorbell(self) -> Doorbell:
        """A doorbell for the calling thread."""

    @abc.abstractmethod
    def handle(self) -> GroupHandle:
        """What another process needs to attach."""

    @abc.abstractmethod
    def member_id(self) -> int:
        """This member's number in the group."""

    @abc.abstractmethod
    def reclaim(self, pid: int) -> list[LostMessage]:
        """Take back what the dead process `pid` held, repair locks it held, and say which messages were lost.

        Waiting consumers are woken, so that a wake-up the dead process swallowed is not lost. A process that was
        never a member gives an empty list. Calling it for a living process raises UsageError.
        """

    @abc.abstractmethod
    def stats(self) -> GroupStats:
        """Counters and holders, for reports and for tests that nothing is left."""

    @abc.abstractmethod
    def trim(self) -> int:
        """Give memory of free blocks back to the machine; returns the bytes given back."""

    @abc.abstractmethod
    def close(self) -> None:
        """Leave the group. Arrays made from its blocks stay valid until they are gone. Idempotent.

        The owner's close also closes every queue.
        """


class Transport(abc.ABC):
    """Makes and joins memory groups."""

    scheme: str

    @abc.abstractmethod
    def create_group(self, config: GroupConfig) -> MemoryGroup:
        """A new group owned by this process."""

    @abc.abstractmethod
    def attach(self, handle: GroupHandle, fds: Sequence[int], label: str = "") -> MemoryGroup:
        """Join a group made elsewhere; `fds` are its descriptors as numbered here, `label` names this member."""
