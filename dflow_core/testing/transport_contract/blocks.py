"""Contract of blocks: the memory a message lies in, and the arrays made from it."""

from __future__ import annotations

import gc
import os
import threading
import time

import numpy as np
import pytest

from dflow_core.errors import ClosedError, PoolExhaustedError, UsageError
from dflow_core.message import block_of
from dflow_core.spi import MemoryGroup, Queue, Transport
from dflow_core.testing.transport_contract.kit import MIB, SMALL, Contract, filled, in_use, thread, value_of


class BlockContract(Contract):
    """Blocks and the arrays made from them."""

    @pytest.mark.parametrize("size", [0, 1, 255, 4095, 4096, 4097, 65_536, 3 * MIB])
    def test_block_has_the_size_asked_for(self, group: MemoryGroup, size: int) -> None:
        block = group.alloc(size)
        array = block.array(writable=True)
        assert (block.nbytes, array.nbytes, array.dtype.name, array.ndim) == (size, size, "uint8", 1)
        array[:] = 5
        assert size == 0 or int(block.array().sum()) == 5 * size

    def test_block_starts_on_a_cache_line(self, group: MemoryGroup) -> None:
        assert all(group.alloc(n).array().ctypes.data % 64 == 0 for n in (1, 100, 5000))

    def test_array_is_read_only_unless_asked(self, group: MemoryGroup) -> None:
        block = group.alloc(10)
        array = block.array()
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
        block.array(writable=True)[0] = 1
        assert array[0] == 1

    def test_block_is_found_from_any_array_made_of_it(self, group: MemoryGroup) -> None:
        block = group.alloc(64)
        array = block.array(writable=True)
        for derived in (array, array[8:], array[:32].view(np.float32).reshape(2, 4)[1], array[::-1]):
            assert block_of(derived) is block

    def test_derived_array_keeps_the_block_alive(self, group: MemoryGroup) -> None:
        array = filled(group, 9).array()[10:20].reshape(2, 5)
        gc.collect()
        others = [filled(group, 1) for _ in range(20)]
        assert in_use(group) == 21
        assert int(array.sum()) == 90
        del array
        assert in_use(group) == 20
        del others
        assert in_use(group) == 0

    def test_retained_block_outlives_the_first_holder(self, group: MemoryGroup) -> None:
        block = filled(group, 3)
        other = block.retain()
        block.release()
        assert in_use(group) == 1
        assert value_of(other) == 3
        other.release()
        assert in_use(group) == 0

    def test_release_is_idempotent(self, group: MemoryGroup) -> None:
        block, other = group.alloc(1), group.alloc(1)
        block.release()
        block.release()
        assert in_use(group) == 1
        other.release()

    def test_released_block_cannot_be_used(self, group: MemoryGroup) -> None:
        block = group.alloc(1)
        block.release()
        with pytest.raises(UsageError):
            block.array()
        with pytest.raises(UsageError):
            block.retain()

    def test_array_stays_valid_after_the_group_was_closed(self, transport: Transport) -> None:
        """BC-016."""
        group = transport.create_group(SMALL)
        array = filled(group, 7, 5 * MIB).array()[100:]
        group.close()
        del group
        gc.collect()
        assert int(array.min()) == int(array.max()) == 7

    def test_closed_group_refuses_work(self, transport: Transport) -> None:
        group = transport.create_group(SMALL)
        queue = group.create_queue("q", 1)
        group.close()
        group.close()
        for call in (lambda: group.alloc(1), group.stats, lambda: queue.get(0), queue.level, group.handle):
            with pytest.raises(ClosedError):
                call()

    def test_exhausted_pool_says_who_holds_it_and_recovers(self, group: MemoryGroup, queue: Queue) -> None:
        held = [group.alloc(MIB) for _ in range(6)]
        queue.put(held.pop())
        with pytest.raises(PoolExhaustedError) as caught:
            for _ in range(3):
                held.append(group.alloc(MIB))
            group.alloc(MIB)
        assert "holds" in str(caught.value) and "'work'" in str(caught.value) and str(os.getpid()) in str(caught.value)
        held.clear()
        assert group.alloc(6 * MIB).nbytes == 6 * MIB

    def test_block_larger_than_the_pool_is_refused_at_once(self, group: MemoryGroup) -> None:
        with pytest.raises(PoolExhaustedError) as caught:
            group.alloc(1 << 40, timeout=None)
        assert caught.value.never_fits and str(1 << 40) in str(caught.value)

    def test_sizes_around_a_page_until_the_pool_is_full(self, group: MemoryGroup) -> None:
        """BC-009."""
        held, size = [], 4095
        with pytest.raises(PoolExhaustedError):
            while True:
                for n in (size, size + 1, size + 2):
                    held.append(filled(group, 1, n))
                size *= 2
        held.clear()
        assert in_use(group) == 0
        assert filled(group, 2, 4097).nbytes == 4097

    def test_allocation_waits_for_a_release(self, group: MemoryGroup) -> None:
        held = [group.alloc(7 * MIB)]
        started = threading.Event()

        def free_soon() -> None:
            started.wait(5)
            held.clear()

        with thread(free_soon):
            started.set()
            assert group.alloc(6 * MIB, timeout=10).nbytes == 6 * MIB

    def test_allocation_gives_up_after_its_limit(self, group: MemoryGroup) -> None:
        held = group.alloc(7 * MIB)
        start = time.monotonic()
        with pytest.raises(PoolExhaustedError):
            group.alloc(7 * MIB, timeout=0.15)
        assert 0.14 < time.monotonic() - start < 5
        held.release()

    def test_most_blocks_is_a_limit_too(self, group: MemoryGroup) -> None:
        held = []
        with pytest.raises(PoolExhaustedError):
            for _ in range(SMALL.max_blocks + 1):
                held.append(group.alloc(1))
        assert len(held) == SMALL.max_blocks

    def test_freed_memory_serves_other_sizes(self, group: MemoryGroup) -> None:
        """BC-007: use does not grow with traffic."""
        rng = np.random.default_rng(7)
        for _ in range(300):
            held = [group.alloc(int(size)) for size in rng.choice([4096, 100_000, MIB, 2 * MIB], 2)][:1]
            held += [group.alloc(4096) for _ in range(20)]
        del held
        stats = group.stats()
        assert stats.blocks_in_use == stats.bytes_in_use == 0
        assert stats.bytes_backed <= stats.memory_limit == SMALL.memory_limit
        assert group.alloc(8 * MIB).nbytes == 8 * MIB

    def test_trim_gives_free_memory_back(self, group: MemoryGroup) -> None:
        kept = filled(group, 4, MIB)
        held = [group.alloc(MIB) for _ in range(4)]
        del held
        before = group.stats().bytes_backed
        given = group.trim()
        assert given >= 3 * MIB
        assert group.stats().bytes_backed == before - given
        assert int(kept.array().min()) == 4
        assert filled(group, 5, 4 * MIB).array()[-1] == 5
