"""Contract of the table of C functions (`dflow/transport.h`), driven through ctypes as native code would."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int64, c_uint32, c_uint64, c_void_p
from typing import ClassVar

import numpy as np
import pytest

from dflow_core.spi import NATIVE_ABI, MemoryGroup, NativeTable, Queue, Transport, include_dir
from dflow_core.testing.transport_contract.kit import MIB, Child, Contract, adds_up, filled, in_use, thread
from dflow_core.testing.waiting import wait_until

OK, TIMEOUT, CLOSED, GROUP_CLOSED, BAD_BLOCK, MISSING, TOO_BIG = 0, -1, -2, -3, -5, -9, -11
SECOND = 1_000_000_000


class View(Structure):
    """`dflow_block_view`."""

    _fields_: ClassVar = [("head", c_void_p), ("data", c_void_p), ("size", c_uint64)]


class Stats(Structure):
    """`dflow_queue_stats`."""

    _fields_: ClassVar = [
        *[(name, c_uint32) for name in ("depth", "level", "closed", "reserved")],
        *[(name, c_uint64) for name in ("sent", "delivered", "dropped", "failed")],
        *[(name, c_uint64) for name in ("oldest_age_ns", "blocked_ns", "waiting_ns")],
    ]


_IDS = POINTER(c_uint32)
_FUNCTIONS = {
    "allocate": (c_int64, c_uint64, c_int64),
    "retain": (c_int, c_int64),
    "release": (c_int, c_int64),
    "view": (c_int, c_int64, POINTER(View)),
    "queue_find": (c_int64, c_char_p),
    "enqueue": (c_int, c_uint32, c_int64, c_int64),
    "dequeue": (c_int64, c_uint32, c_int64),
    "take_dropped": (c_int64, c_uint32),
    "level": (c_int64, c_uint32),
    "close": (c_int, c_uint32),
    "wait": (c_int, _IDS, c_uint32, _IDS, c_uint32, c_int64),
    "queue_stats": (c_int, c_uint32, POINTER(Stats)),
    "last_error": (c_char_p,),
}


class RawTable(Structure):
    """`struct dflow_transport`."""

    _fields_: ClassVar = [
        ("abi", c_uint32), ("size", c_uint32), ("context", c_void_p), *[(name, c_void_p) for name in _FUNCTIONS]
    ]


class Native:
    """A member as native code sees it; every method is a function of the table."""

    def __init__(self, table: NativeTable) -> None:
        self._keep = table
        self.raw = RawTable.from_address(table.address)

    def call(self, name: str, *args: object) -> int:
        """The function of that name; returns its code or value."""
        result, *types = _FUNCTIONS[name]
        function = ctypes.CFUNCTYPE(result, c_void_p, *types)(getattr(self.raw, name))
        got: int = function(self.raw.context, *args)
        return got

    def last_error(self) -> str:
        """Words for the last code in this thread."""
        function = ctypes.CFUNCTYPE(c_char_p, c_void_p)(self.raw.last_error)
        return (function(self.raw.context) or b"").decode()

    def queue(self, name: str) -> int:
        """Number of a queue."""
        return self.call("queue_find", name.encode())

    def send(self, queue: int, value: int, size: int = 300, wait_ns: int = 0) -> int:
        """A block filled with `value`, sent; what enqueue said."""
        key = self.call("allocate", size, 0)
        assert key >= 0
        view = View()
        assert self.call("view", key, byref(view)) == OK and view.size == size
        ctypes.memset(view.head, value, size)
        code = self.call("enqueue", queue, key, wait_ns)
        if code != OK:
            assert self.call("release", key) == OK
        return code

    def receive(self, queue: int, wait_ns: int = 0) -> int:
        """First byte of the next message, released; or the code."""
        key = self.call("dequeue", queue, wait_ns)
        if key < 0:
            return key
        view = View()
        assert self.call("view", key, byref(view)) == OK
        value = ctypes.string_at(view.head, 1)[0]
        assert self.call("release", key) == OK
        return value


class NativeContract(Contract):
    """The table of C functions."""

    @pytest.fixture
    def native(self, group: MemoryGroup) -> Native:
        table = group.native_table()
        if table is None:
            pytest.skip("this transport has no native table")
        return Native(table)

    def test_table_says_what_it_is(self, group: MemoryGroup, native: Native) -> None:
        table = group.native_table()
        assert table is not None
        assert native.raw.abi == table.abi == NATIVE_ABI
        assert native.raw.size >= ctypes.sizeof(RawTable)
        assert all(getattr(native.raw, name) for name in _FUNCTIONS)
        assert (include_dir() / "dflow" / "transport.h").is_file()

    def test_blocks_come_out_in_the_order_they_went_in(self, group: MemoryGroup, native: Native, queue: Queue) -> None:
        number = native.queue("work")
        for start in range(0, 40, 4):
            assert [native.send(number, start + i) for i in range(4)] == [OK] * 4
            assert native.call("level", number) == 4
            assert [native.receive(number) for _ in range(4)] == [start + i for i in range(4)]
        assert in_use(group) == 0 and adds_up(group)

    def test_queue_is_bounded_and_waits_have_limits(self, group: MemoryGroup, native: Native, queue: Queue) -> None:
        number = native.queue("work")
        assert native.call("dequeue", number, 20_000_000) == TIMEOUT
        assert [native.send(number, 1) for _ in range(5)] == [OK] * 4 + [TIMEOUT]
        assert native.send(number, 1, wait_ns=20_000_000) == TIMEOUT
        assert native.call("dequeue", number, -5) >= 0
        assert in_use(group) == 4

    def test_sides_wake_each_other(self, native: Native, queue: Queue) -> None:
        number, rounds = native.queue("work"), 500

        def produce() -> None:
            assert [native.send(number, i & 127, wait_ns=20 * SECOND) for i in range(rounds)] == [OK] * rounds

        with thread(produce):
            got = [native.receive(number, 20 * SECOND) for _ in range(rounds)]
        assert got == [i & 127 for i in range(rounds)]

    def test_closed_queue_gives_what_is_in_it_and_then_ends(self, native: Native, queue: Queue) -> None:
        number = native.queue("work")
        native.send(number, 7)
        assert native.call("close", number) == OK
        assert native.send(number, 8) == CLOSED
        assert "closed" in native.last_error()
        assert native.receive(number) == 7
        assert native.call("dequeue", number, 20 * SECOND) == CLOSED

    def test_references_are_counted(self, group: MemoryGroup, native: Native, queue: Queue) -> None:
        key, number = native.call("allocate", 1000, 0), native.queue("work")
        assert native.call("retain", key) == native.call("retain", key) == OK
        assert native.call("enqueue", number, key, 0) == native.call("release", key) == OK
        assert in_use(group) == 1
        assert native.call("release", key) == OK
        assert native.call("release", key) == native.call("enqueue", number, key, 0) == BAD_BLOCK
        view = View()
        assert native.call("view", key, byref(view)) == BAD_BLOCK
        assert native.call("dequeue", number, 0) == key
        assert native.call("release", key) == OK and in_use(group) == 0

    def test_head_and_data_lie_in_the_block(self, native: Native) -> None:
        view = View()
        for size in (0, 255, 256, 5000):
            key = native.call("allocate", size, 0)
            assert native.call("view", key, byref(view)) == OK
            assert view.size == size and view.head % 64 == 0
            assert view.data == (view.head + 256 if size >= 256 else None)
            assert native.call("release", key) == OK

    def test_sizes_are_64_bit(self, group: MemoryGroup, native: Native) -> None:
        for size in (2**31, 2**32 + 5, 2**63, 2**64 - 1):
            assert native.call("allocate", size, 0) == TOO_BIG
        held = [native.call("allocate", 4 * MIB, 0) for _ in range(2)]
        assert native.call("allocate", 1, 20_000_000) == TIMEOUT
        assert [native.call("release", key) for key in held] == [OK, OK]

    def test_unknown_numbers_and_blocks_are_refused(self, native: Native, queue: Queue) -> None:
        assert native.queue("none") == MISSING
        key = native.call("allocate", 1, 0)
        for wrong in (1, 31, 2**32 - 1):
            assert native.call("enqueue", wrong, key, 0) == native.call("dequeue", wrong, 0) == MISSING
            assert native.call("level", wrong) == native.call("close", wrong) == MISSING
            ids = (c_uint32 * 1)(wrong)
            assert native.call("wait", ids, 1, ids, 0, 0) == MISSING
        for wrong in (-1, key + 1, key + (1 << 40), 2**63 - 1):
            assert native.call("enqueue", 0, wrong, 0) == native.call("release", wrong) == BAD_BLOCK
        assert native.call("release", key) == OK

    def test_wait_hears_any_of_many_queues(self, group: MemoryGroup, native: Native) -> None:
        numbers = [native.queue(group.create_queue(f"in{i}", 1).name) for i in range(5)]
        ids, none = (c_uint32 * 5)(*numbers), (c_uint32 * 1)()
        assert native.call("wait", ids, 5, none, 0, 20_000_000) == 0
        assert native.call("wait", none, 0, ids, 5, 0) == 1
        for number in numbers:
            with thread(lambda number=number: native.send(number, 3)):  # type: ignore[misc]
                while native.call("wait", ids, 5, none, 0, 20 * SECOND) == 0:
                    pass
            assert native.receive(number, SECOND) == 3
        with thread(lambda: native.call("close", numbers[2])):
            assert native.call("wait", ids, 5, none, 0, 20 * SECOND) == 1

    def test_python_and_native_code_share_queues(self, group: MemoryGroup, native: Native, queue: Queue) -> None:
        queue.put(filled(group, 5))
        assert native.receive(native.queue("work")) == 5
        native.send(native.queue("work"), 6)
        block = queue.get(0)
        assert block is not None and int(block.array()[299]) == 6

    def test_statistics_are_those_of_python(self, group: MemoryGroup, native: Native, queue: Queue) -> None:
        number = native.queue("work")
        for i in range(3):
            native.send(number, i)
        native.receive(number)
        stats, (seen,) = Stats(), group.stats().queues
        assert native.call("queue_stats", number, byref(stats)) == OK
        got = (stats.depth, stats.level, stats.closed, stats.sent, stats.delivered, stats.dropped, stats.failed)
        assert got == (seen.depth, seen.level, 0, seen.sent, seen.delivered, seen.dropped, seen.failed)

    @pytest.mark.parametrize("holding", ["nothing", "allocated", "taken", "waiting"])
    def test_peer_is_lost_at_any_step(
        self, transport: Transport, group: MemoryGroup, native: Native, queue: Queue, holding: str
    ) -> None:
        board = group.board("step", 1)
        native.send(native.queue("work"), 9)

        def work(member: MemoryGroup) -> None:
            table, step = member.native_table(), member.board("step", 1)
            assert table is not None
            peer = Native(table)
            if holding == "allocated":
                assert peer.call("allocate", 700, 0) >= 0
            if holding in ("taken", "waiting"):
                assert peer.call("dequeue", 0, SECOND) >= 0
            step[0] = 1
            if holding == "waiting":
                peer.call("dequeue", 0, 100 * SECOND)
            signal.pause()

        child = Child(transport, group, work)
        wait_until(lambda: bool(board[0]))
        child.kill()
        lost = group.reclaim(child.pid)
        assert len(lost) == (holding in ("taken", "waiting"))
        assert native.send(native.queue("work"), 4) == OK
        values = [native.receive(0) for _ in range(native.call("level", 0))]
        assert values == ([4] if lost else [9, 4])
        assert in_use(group) == 0 and adds_up(group)

    def test_child_of_fork_is_refused(self, group: MemoryGroup, native: Native) -> None:
        pid = os.fork()  # noqa: TID251 - what a fork may not do is the point
        if not pid:
            os._exit(0 if native.call("allocate", 1, 0) == native.call("dequeue", 0, 0) == -4 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def test_table_answers_after_the_group_was_left(self, transport: Transport, group: MemoryGroup) -> None:
        handle = group.handle()
        with contextlib.closing(transport.attach(handle, handle.fds)) as member:
            table = member.native_table()
        if table is None:
            pytest.skip("this transport has no native table")
        del member
        native = Native(table)
        assert native.call("allocate", 1, SECOND) == native.call("dequeue", 0, SECOND) == GROUP_CLOSED
        assert native.call("level", 0) == GROUP_CLOSED

    def test_many_threads_lose_nothing(self, group: MemoryGroup, native: Native, queue: Queue) -> None:
        number, each, got, lock = native.queue("work"), 400, np.zeros(4, np.int64), threading.Lock()

        def produce(value: int) -> None:
            for _ in range(each):
                assert native.send(number, value, wait_ns=20 * SECOND) == OK

        def consume() -> None:
            while (value := native.receive(number, 20 * SECOND)) != CLOSED:
                with lock:
                    got[value] += 1

        with thread(consume), thread(consume):
            with thread(lambda: produce(1)), thread(lambda: produce(2)), thread(lambda: produce(3)):
                pass
            native.call("close", number)
        assert got.tolist() == [0, each, each, each] and in_use(group) == 0
