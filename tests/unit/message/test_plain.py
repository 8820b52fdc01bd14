from __future__ import annotations

import numpy as np
import pytest

from dflow_core.errors import TensorError, UsageError
from dflow_core.message import Aux, FlowMsg, HeapBlock, Member, MsgInfo, copy_like, encode, peek_plain
from dflow_core.message.info import DataFlag, Flag


def block_with(value: object, info: MsgInfo, aux: Aux | None = None) -> HeapBlock:
    msg = encode(value, info) if aux is None else encode(value, info, HeapBlock, aux)
    assert isinstance(msg.block, HeapBlock)
    return msg.block


@pytest.mark.parametrize("array", [
    np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7, np.int64), np.empty((0, 4)), np.array([True, False]),
], ids=["2-d", "0-d", "empty", "bool"])
def test_plain_tensor_is_read_as_a_read_only_array(array) -> None:
    seen = peek_plain(block_with(array, MsgInfo(trans_id=9, token=5, data_flag=DataFlag.CUSTOM_ID)))
    assert seen is not None
    trans_id, got = seen
    assert trans_id == 9 and got.dtype == array.dtype and got.shape == array.shape and not got.flags.writeable
    assert np.array_equal(got, array)


@pytest.mark.parametrize(("value", "info", "aux"), [
    (np.zeros(2), MsgInfo(flags=Flag.EOS), None),
    (np.zeros(2), MsgInfo(ret_code=3), None),
    (np.zeros(2), MsgInfo(), Aux((Member(MsgInfo(trans_id=1), 3),))),
    (None, MsgInfo(), None),
    ({"an": "object"}, MsgInfo(), None),
    (np.array(["text"]), MsgInfo(), None),
], ids=["flag", "return code", "members", "null", "object", "strings"])
def test_every_other_message_needs_a_longer_look(value, info, aux) -> None:
    assert peek_plain(block_with(value, info, aux)) is None


def test_copy_has_the_head_of_its_pattern_and_the_bytes_of_the_array() -> None:
    head = MsgInfo(trans_id=4, token=77, data_label=2, route_label=3, start_time=5, end_time=6, user_data=b"mine")
    strided = np.arange(24, dtype=">i4").reshape(4, 6)[:, ::2]
    msg = FlowMsg.from_block(copy_like(block_with(np.zeros(3), head), strided, HeapBlock))
    msg.info.user_data = msg.info.user_data.rstrip(b"\0")
    assert msg.info == head
    tensor = msg.get_tensor()
    assert tensor is not None and tensor.dtype == np.int32 and np.array_equal(tensor, strided)


def test_copy_refuses_what_is_not_plain() -> None:
    pattern = block_with(np.zeros(3), MsgInfo())
    with pytest.raises(UsageError):
        copy_like(pattern, np.array(["text"]), HeapBlock)
    with pytest.raises(TensorError):
        copy_like(pattern, np.array([1 + 2j, object()], dtype=object), HeapBlock)
