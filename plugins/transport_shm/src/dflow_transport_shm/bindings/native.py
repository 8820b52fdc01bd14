"""The C functions: checks arguments, calls, turns return codes into exceptions."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NewType, NoReturn

from dflow_core.errors import ClosedError, DeployError, PeerGoneError, UsageError, WaitTimeoutError
from dflow_transport_shm._native import ffi, lib

Handle = NewType("Handle", object)
IdArray = NewType("IdArray", object)

E_TIMEOUT: int = lib.DSHM_E_TIMEOUT
E_CLOSED: int = lib.DSHM_E_CLOSED
E_SYSTEM: int = lib.DSHM_E_SYSTEM
E_TOO_BIG: int = lib.DSHM_E_TOO_BIG
E_MISSING: int = lib.DSHM_E_MISSING
E_BADREF: int = lib.DSHM_E_BADREF
END: int = lib.DSHM_E_END

_U64 = 2**64 - 1
_U32 = 2**32 - 1

# Bare, for tests. alloc: size, wait_ns; put: queue, key, wait_ns; get: queue, wait_ns. They give keys or codes.
alloc: Callable[[Handle, int, int], int] = lib.dshm_alloc
put: Callable[[Handle, int, int, int], int] = lib.dshm_put
get: Callable[[Handle, int, int], int] = lib.dshm_get
retain: Callable[[Handle, int], int] = lib.dshm_retain
release: Callable[[Handle, int], int] = lib.dshm_release
bell_wait: Callable[[Handle, int, IdArray, int, IdArray, int, int], int] = lib.dshm_bell_wait


class StopAt(enum.IntEnum):
    """Places between two steps that have to look like one, where a test can stop or kill this process: `fault.h`."""

    _ignore_ = ("_name",)

    for _name in ffi.typeof("enum dshm_stop").relements:
        if _name != "DSHM_STOP_COUNT":
            vars()[_name.removeprefix("DSHM_STOP_")] = ffi.typeof("enum dshm_stop").relements[_name]


class Totals(NamedTuple):
    """Counters of a group."""

    blocks_in_use: int
    bytes_in_use: int
    bytes_backed: int
    memory_limit: int
    repairs: int
    members: int
    queues: int


class Use(NamedTuple):
    """What one member holds."""

    label: str
    pid: int
    blocks: int
    bytes: int


class QueueInfo(NamedTuple):
    """State and counters of one queue."""

    name: str
    depth: int
    overflow: int
    level: int
    closed: bool
    sent: int
    delivered: int
    dropped: int
    failed: int
    bytes: int
    oldest_age: float
    blocked: float
    waiting: float


class Lost(NamedTuple):
    """A block taken over from a dead member, the queue it came from (-1: none), and where to go on."""

    key: int
    queue: int
    cursor: int


_Kind = type[ClosedError] | type[UsageError] | type[PeerGoneError] | type[WaitTimeoutError]

_MESSAGES: dict[int, tuple[_Kind, str, str | None]] = {
    lib.DSHM_E_CLOSED: (ClosedError, "the queue was closed", None),
    lib.DSHM_E_GROUP_CLOSED: (ClosedError, "this process has left the memory group", None),
    lib.DSHM_E_FORKED: (
        ClosedError,
        "this memory group was opened before the process forked, and a child cannot use its parent's membership",
        "let the child attach to the group by its handle, or start it with spawn or forkserver",
    ),
    lib.DSHM_E_BADREF: (UsageError, "this process does not hold the block: it was sent or released already", None),
    lib.DSHM_E_TABLE: (
        UsageError,
        "a table of the memory group is full",
        "raise max_members, max_queues or max_blocks in the group's configuration, or use smaller queues",
    ),
    lib.DSHM_E_EXISTS: (UsageError, "the memory group has a queue of that name already", None),
    lib.DSHM_E_MISSING: (UsageError, "the memory group has no such queue", None),
    lib.DSHM_E_FORMAT: (UsageError, "the descriptor is not the memory group the handle describes", None),
    lib.DSHM_E_TOO_BIG: (UsageError, "the size does not fit into the memory group", None),
    lib.DSHM_E_ALIVE: (UsageError, "the process is still alive", None),
    lib.DSHM_E_BROKEN: (PeerGoneError, "the lock of the memory group cannot be recovered", None),
    lib.DSHM_E_STUCK: (
        WaitTimeoutError,
        "the lock of the memory group was not free for seconds",
        "a process of the group is stopped (SIGSTOP, a debugger) while it holds the lock; let it go on, or end it",
    ),
}


def last_error() -> str:
    """What the system said when a function last returned E_SYSTEM in this thread."""
    return os.strerror(lib.dshm_last_errno())


def fail(code: int) -> NoReturn:
    """Raise what a negative return code means."""
    if code == E_SYSTEM:
        raise DeployError(f"the system refused shared memory: {last_error()}")
    kind, message, hint = _MESSAGES[code]
    raise kind(message, hint=hint)


def _checked(code: int) -> int:
    if code < 0:
        fail(code)
    return code


def _text(data: Any) -> str:
    raw: bytes = ffi.string(data)
    return raw.decode("utf-8", "replace")


def create(memory_limit: int, max_blocks: int, max_members: int, max_queues: int, spin_us: int, group: int) -> Handle:
    """Make a group; this process becomes its owner.

    Raises:
        UsageError: a number is out of range.
        DeployError: the system refused the memory.
    """
    values = {"max_blocks": max_blocks, "max_members": max_members, "max_queues": max_queues}
    for name, value in values.items():
        most = 1024 if name == "max_members" else 2**24 - 1
        if not 0 < value <= most:
            raise UsageError(f"{name} is {value}, it must be between 1 and {most}")
    if not 0 < memory_limit <= 2**46 or not 0 <= spin_us <= 1_000_000:
        raise UsageError(f"memory_limit {memory_limit} or spin_us {spin_us} is out of range")
    out = ffi.new("struct dshm **")
    code = lib.dshm_create(memory_limit, max_blocks, max_members, max_queues, spin_us, group, out)
    if code == E_SYSTEM:
        raise DeployError(
            f"the system refused shared memory that may grow to {memory_limit >> 20} MiB: {last_error()}",
            hint="lower the option memory_limit, or raise what limits this process (`ulimit -a` shows it)",
        )
    _checked(code)
    return Handle(ffi.gc(out[0], lib.dshm_free))


def attach(fd: int, group: int, label: str) -> Handle:
    """Join the group behind a descriptor, which stays the caller's."""
    out = ffi.new("struct dshm **")
    _checked(lib.dshm_attach(fd, group, label.encode("utf-8")[:255], out))
    return Handle(ffi.gc(out[0], lib.dshm_free))


def close(handle: Handle) -> None:
    """Leave the group; what is still used keeps the mapping."""
    lib.dshm_close(handle)


def fd_of(handle: Handle) -> int:
    """The descriptor of the group in this process."""
    fd: int = lib.dshm_fd(handle)
    return fd if fd >= 0 else fail(lib.DSHM_E_GROUP_CLOSED)


def member_of(handle: Handle) -> int:
    """Number of this member."""
    number: int = lib.dshm_member(handle)
    return number


def is_owner(handle: Handle) -> bool:
    """Whether this member made the group."""
    return bool(lib.dshm_is_owner(handle))


def stop_at(handle: Handle, where: StopAt, kill: bool = False, skip: int = 0) -> None:
    """For tests: stop (SIGSTOP) or kill this process when it gets to that place for the time after `skip` times."""
    lib.dshm_fault_at(handle, int(where), lib.DSHM_FAULT_KILL if kill else lib.DSHM_FAULT_STOP, skip)


def block_info(handle: Handle, key: int) -> tuple[int, int]:
    """Address and size of a block this member holds."""
    address, size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    _checked(lib.dshm_block_info(handle, key, address, size))
    return int(address[0]), int(size[0])


def trim(handle: Handle) -> int:
    """Give pages of free blocks back; returns bytes."""
    return _checked(lib.dshm_trim(handle))


def _name(what: str, name: str) -> bytes:
    raw = name.encode("utf-8")
    if not 0 < len(raw) <= 255 or 0 in raw:
        raise UsageError(f"{what} name {name!r} is {len(raw)} bytes of UTF-8; it needs 1 to 255, none of them zero")
    return raw


def queue_create(handle: Handle, name: str, depth: int, overflow: int, max_age: float, start: int = 0) -> int:
    """Make a queue; returns its number. `start` is where its counters begin, for tests of their wrap-around.

    Raises:
        UsageError: the name is taken, empty or too long, or the depth or the age is out of range.
    """
    raw = _name("queue", name)
    if not 0 < depth < 2**22:
        raise UsageError(f"queue {name!r}: depth is {depth}, it must be between 1 and {2**22 - 1}")
    if overflow == lib.DSHM_MAX_AGE and not 0 < max_age < 1e9:
        raise UsageError(f"queue {name!r}: max_age is {max_age} s, it must be more than 0")
    code: int = lib.dshm_queue_create(handle, raw, depth, overflow, int(max_age * 1e9), start)
    if code == lib.DSHM_E_EXISTS:
        raise UsageError(f"the memory group has a queue {name!r} already")
    return _checked(code)


def queue_find(handle: Handle, name: str) -> int:
    """Number of the queue of that name, or E_MISSING."""
    raw = name.encode("utf-8")
    code: int = E_MISSING if 0 in raw else lib.dshm_queue_find(handle, raw)
    return code if code == E_MISSING else _checked(code)


def queue_close(handle: Handle, queue: int) -> None:
    """Close a queue."""
    _checked(lib.dshm_queue_close(handle, queue))


def bell_take(handle: Handle) -> int:
    """Take a doorbell; returns its number."""
    return _checked(lib.dshm_bell_take(handle))


def bell_drop(handle: Handle, bell: int) -> None:
    """Give a doorbell back; nothing happens after the group was closed."""
    lib.dshm_bell_drop(handle, bell)


def bell_ring(handle: Handle, bell: int) -> None:
    """Wake whoever waits on the doorbell."""
    _checked(lib.dshm_bell_ring(handle, bell))


def id_array(numbers: Sequence[int]) -> IdArray:
    """Queue numbers as `bell_wait` takes them."""
    return IdArray(ffi.new("uint32_t[]", list(numbers)))


def totals(handle: Handle) -> Totals:
    """Counters of the group."""
    out = ffi.new("struct dshm_totals *")
    _checked(lib.dshm_totals(handle, out))
    return Totals(
        out.blocks_in_use, out.bytes_in_use, out.bytes_backed, out.memory_limit, out.repairs, out.members, out.queues
    )


def member_use(handle: Handle, member: int) -> Use | None:
    """What a member holds, or None if the slot is free."""
    out = ffi.new("struct dshm_use *")
    code: int = lib.dshm_member_use(handle, member, out)
    if code == E_MISSING:
        return None
    _checked(code)
    return Use(_text(out.label), out.pid, out.blocks, out.bytes)


def queue_info(handle: Handle, queue: int) -> QueueInfo:
    """State of a queue."""
    out = ffi.new("struct dshm_queue_info *")
    _checked(lib.dshm_queue_info(handle, queue, out))
    counters = (out.sent, out.delivered, out.dropped, out.failed, out.bytes)
    times = (out.oldest_age_ns / 1e9, out.blocked_ns / 1e9, out.waiting_ns / 1e9)
    return QueueInfo(_text(out.name), out.depth, out.overflow, out.level, bool(out.closed), *counters, *times)


def reclaim_find(handle: Handle, pid: int) -> int:
    """A member slot of that dead process, or E_MISSING.

    Raises:
        UsageError: the process lives.
    """
    if not 0 < pid <= _U32:
        return E_MISSING
    code: int = lib.dshm_reclaim_find(handle, pid)
    if code == lib.DSHM_E_ALIVE:
        raise UsageError(f"process {pid} is alive and a member of the memory group; only the dead can be reclaimed")
    return code if code == E_MISSING else _checked(code)


def reclaim_next(handle: Handle, member: int, cursor: int) -> Lost | None:
    """The next message a dead member held, now held by this member; None when all is back and the slot is free."""
    out = ffi.new("struct dshm_lost *")
    out.cursor = cursor
    code: int = lib.dshm_reclaim_next(handle, member, out)
    if code == END:
        return None
    _checked(code)
    return Lost(out.key, out.queue, out.cursor)


def board(handle: Handle, name: str, words: int) -> int:
    """Address of the counters of that name; the mapping stays until they are unpinned.

    Raises:
        UsageError: there is a board of that name with another number of words, or no room for one.
    """
    if not 0 < words < 2**20:
        raise UsageError(f"board {name!r}: {words} words, it must be between 1 and {2**20 - 1}")
    address = ffi.new("uint64_t *")
    code: int = lib.dshm_board(handle, _name("board", name), words, address)
    if code == lib.DSHM_E_EXISTS:
        raise UsageError(f"the board {name!r} does not have {words} words")
    _checked(code)
    return int(address[0])


def native_table(handle: Handle) -> int:
    """Address of the group's `struct dflow_transport`, valid as long as the handle."""
    return int(ffi.cast("uintptr_t", lib.dshm_native_table(handle)))


def address_of(handle: Handle) -> int:
    """Address of the handle, for the extension module."""
    return int(ffi.cast("uintptr_t", handle))


def calls() -> int:
    """Address of the functions of the message path, for the extension module."""
    return int(ffi.cast("uintptr_t", lib.dshm_calls()))
