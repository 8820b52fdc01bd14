"""Contract of plain tensor messages: `peek` and `alloc_like` do what `dflow_core.message.plain` does."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflow_core.errors import PoolExhaustedError, TensorError, UsageError
from dflow_core.message import Aux, Block, FlowMsg, HeapBlock, Member, MsgInfo, block_of, copy_like, encode, peek_plain
from dflow_core.spi import MemoryGroup
from dflow_core.testing.transport_contract.kit import MIB, Contract, in_use
from dflow_core.types import Array

DTYPES = ("f4", "f2", "i1", "i4", "u1", "i2", "u2", "u4", "i8", "u8", "f8", "?", ">i4", ">f8", "U3", "S2")
# The group is the same for all examples, and the classes of several transports run the same function: both on purpose.
EXAMPLES = settings(
    max_examples=60, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
infos = st.builds(
    MsgInfo,
    trans_id=st.integers(0, 2**64 - 1),
    ret_code=st.sampled_from([0, 0, 0, -7]),
    flags=st.sampled_from([0, 0, 0, 1, 3]),
    data_flag=st.sampled_from([0, 2, 2, 1, 8, 16]),
    token=st.integers(0, 2**64 - 1),
    data_label=st.integers(0, 2**32 - 1),
    user_data=st.binary(max_size=64),
)


def array_of(dtype: str, shape: tuple[int, ...], layout: str) -> Array:
    """An array of that dtype and shape with some content, laid out in memory as told."""
    count = int(np.prod(shape, dtype=np.int64))
    array = np.arange(1, count + 1).astype(dtype).reshape(shape)
    if layout == "fortran":
        return np.asfortranarray(array)
    if layout == "strided" and array.ndim:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    return array


arrays = st.builds(array_of, st.sampled_from(DTYPES), shapes, st.sampled_from(["", "fortran", "strided"]))


def block_with(group: MemoryGroup, value: object, info: MsgInfo, aux: Aux | None = None) -> Block:
    """A block of the group with a whole message in it."""
    msg = encode(value, info, HeapBlock, aux) if aux else encode(value, info)
    block = group.alloc(msg.wire_size)
    msg.write_to(block)
    return block


def same(one: tuple[int, Array] | None, other: tuple[int, Array] | None) -> bool:
    """Whether both looks at a message saw the same."""
    if one is None or other is None:
        return one is other
    (a_id, a), (b_id, b) = one, other
    alike = a.dtype == b.dtype and a.shape == b.shape and a.strides == b.strides
    return a_id == b_id and alike and a.flags.writeable == b.flags.writeable and bool(np.array_equal(a, b))


class PlainContract(Contract):
    """Reading and making plain messages."""

    @EXAMPLES
    @given(array=arrays, info=infos)
    def test_peek_sees_what_the_reference_sees(self, group: MemoryGroup, array: Array, info: MsgInfo) -> None:
        block = block_with(group, array, info)
        assert same(group.peek(block), peek_plain(block))

    @EXAMPLES
    @given(array=arrays, info=infos)
    def test_copy_is_byte_for_byte_that_of_the_reference(
        self, group: MemoryGroup, array: Array, info: MsgInfo
    ) -> None:
        head = block_with(group, np.zeros(3, np.float32), info)
        if array.dtype.kind in "US":
            with pytest.raises(UsageError):
                group.alloc_like(head, array)
            return
        made, expected = group.alloc_like(head, array), copy_like(head, array, HeapBlock)
        assert made.nbytes == expected.nbytes and np.array_equal(made.array(), expected.array())
        assert group.owns(made)

    @EXAMPLES
    @given(at=st.integers(0, 900), byte=st.integers(0, 255), size=st.integers(1280, 1400))
    def test_broken_message_is_the_same_to_both(self, group: MemoryGroup, at: int, byte: int, size: int) -> None:
        block = block_with(group, np.arange(30, dtype=np.float32), MsgInfo(trans_id=4))
        cut = group.alloc(size)
        cut.array(writable=True)[:] = np.resize(block.array(), size)
        cut.array(writable=True)[at] = byte
        seen: list[object] = []
        for look in (group.peek, peek_plain):
            try:
                seen.append(look(cut))
            except (TensorError, struct.error) as error:
                seen.append(repr(error))
        assert seen[0] == seen[1] if isinstance(seen[0], str) else same(*seen)  # type: ignore[arg-type]

    @pytest.mark.parametrize("value", [None, {"an": "object"}, b"bytes"], ids=["null", "object", "raw"])
    def test_every_other_message_needs_a_longer_look(self, group: MemoryGroup, value: object) -> None:
        assert group.peek(block_with(group, value, MsgInfo())) is None
        members = Aux((Member(MsgInfo(trans_id=1), 3),))
        assert group.peek(block_with(group, np.zeros(2), MsgInfo(), members)) is None

    def test_peek_lies_in_the_block_and_keeps_it(self, group: MemoryGroup) -> None:
        block = block_with(group, np.arange(1000), MsgInfo(trans_id=3))
        seen = group.peek(block)
        assert seen is not None and block_of(seen[1]) is block
        del block
        assert in_use(group) == 1 and int(seen[1][999]) == 999
        del seen
        assert in_use(group) == 0

    def test_peek_and_copy_serve_blocks_of_other_memory(self, group: MemoryGroup) -> None:
        msg = encode(np.arange(5, dtype=np.int16), MsgInfo(trans_id=8))
        assert isinstance(msg.block, HeapBlock)
        assert same(group.peek(msg.block), peek_plain(msg.block))
        made = FlowMsg.from_block(group.alloc_like(msg.block, np.ones((2, 2))))
        tensor = made.get_tensor()
        assert made.info.trans_id == 8 and tensor is not None and np.array_equal(tensor, np.ones((2, 2)))

    def test_copy_refuses_what_tensors_cannot_be_and_keeps_nothing(self, group: MemoryGroup) -> None:
        head = block_with(group, np.zeros(3), MsgInfo())
        with pytest.raises(TensorError):
            group.alloc_like(head, np.array([1j]))
        with pytest.raises(PoolExhaustedError):
            group.alloc_like(head, np.zeros(MIB, np.int64), timeout=0.01)
        released = group.alloc(2000)
        released.release()
        with pytest.raises(UsageError):
            group.alloc_like(released, np.zeros(3))
        assert in_use(group) == 1
