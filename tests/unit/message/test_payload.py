"""Values survive the way through a message, and what cannot travel says so."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dflow_core.errors import PackagingError, TensorError
from dflow_core.message import (
    DATA_OFFSET,
    Aux,
    DataFlag,
    ErrorInfo,
    FlowMsg,
    HeapBlock,
    Member,
    MsgInfo,
    MsgType,
    PlainBlock,
    TensorDesc,
    alloc_tensor,
    block_of,
    child_token,
    decode,
    describe,
    encode,
    root_token,
)
from dflow_core.types import DataType, Tensor

NUMERIC = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32,
    np.float64,
]


def round_trip(value: object, info: MsgInfo | None = None) -> object:
    msg = encode(value, info or MsgInfo(trans_id=1))
    assert msg.block is not None
    return decode(FlowMsg.from_block(msg.block))


@given(hnp.arrays(st.sampled_from(NUMERIC), hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)))
def test_numeric_arrays_come_back_equal(array: np.ndarray) -> None:
    """BC-067."""
    back = round_trip(array)
    assert isinstance(back, np.ndarray) and back.dtype == array.dtype and back.shape == array.shape
    np.testing.assert_array_equal(back, array)


def _layouts() -> list[np.ndarray]:
    base = np.arange(24, dtype=np.int32).reshape(4, 6)
    odd = np.lib.stride_tricks.as_strided(np.arange(8), (1, 4), (999, 16))
    return [
        base.T, base[::2], base[::-1], base[:, ::-2], np.broadcast_to(base[0], (3, 6)), np.asfortranarray(base), odd,
        base[:, 1:5],
    ]


@pytest.mark.parametrize("array", _layouts(), ids=lambda a: f"{a.shape}{a.strides}")
def test_any_memory_layout_comes_back_as_if_contiguous(array: np.ndarray) -> None:
    """BC-066."""
    np.testing.assert_array_equal(round_trip(array), np.ascontiguousarray(array))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [">i2", ">f4", ">u8", ">f8"])
def test_big_endian_arrays_are_converted_not_reinterpreted(dtype: str) -> None:
    array = np.array([1, 2, 3], dtype)
    back = round_trip(array)
    assert isinstance(back, np.ndarray) and back.dtype.isnative
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("array", [
    np.array(["深度", "é", "", " a "]),
    np.array([["x"], ["yy"]]),
    np.array([b"a\0b", b"c\0", b""], object),
    np.array(["mixed", b"\xff"], object),
    np.array([b"ab", b"c"]),
    np.array([], "U3"),
    np.array([], object).reshape(0, 2),
    np.array("scalar"),
    np.array(["x" * (1 << 20)], object),
])
def test_strings_come_back_byte_exact(array: np.ndarray) -> None:
    """BC-070."""
    back = round_trip(array)
    assert isinstance(back, np.ndarray) and back.shape == array.shape
    assert back.tolist() == array.tolist()
    assert describe(encode(array, MsgInfo())) == f"string{list(array.shape)}"


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, (1 << 20) - 1, 1 << 20])
def test_bytes_come_back_whole(size: int) -> None:
    """BC-072."""
    data = bytes(range(256)) * (size // 256 + 1)
    assert round_trip(data[:size]) == data[:size]


@pytest.mark.parametrize("value", [1, "x", [1, {"a": (2, 3)}], {"k": None}, 3.5, True, frozenset({1})])
def test_objects_come_back_equal(value: object) -> None:
    assert round_trip(value) == value


def test_arrays_inside_objects_are_views_of_the_message() -> None:
    msg = encode({"image": np.arange(100_000)}, MsgInfo())
    value = decode(msg)
    assert isinstance(value, dict)
    assert block_of(value["image"]) is not None or not value["image"].flags.owndata
    np.testing.assert_array_equal(value["image"], np.arange(100_000))


def test_functions_travel_by_value() -> None:
    """BC-077."""
    factor = 3
    back = round_trip(lambda x: x * factor)
    assert callable(back) and back(5) == 15


def test_what_cannot_be_pickled_is_refused_with_its_type() -> None:
    with pytest.raises(PackagingError, match="lock"):
        encode(threading.Lock(), MsgInfo())


class Metres(np.ndarray):
    """An array with a class of its own."""


@pytest.mark.parametrize("array", [
    np.ma.masked_array([1.0, 2.0], [False, True]), np.ma.masked_array(["a", "b"], [False, True], dtype=object),
    np.ma.masked, np.arange(3).view(Metres), np.array([[1, 2], [3, 4]]).view(np.matrix),
    np.zeros(2, [("a", "i4")]).view(np.recarray),
], ids=["masked", "masked strings", "masked constant", "own class", "matrix", "records"])
def test_arrays_that_are_more_than_their_elements_stay_what_they_are(array: np.ndarray) -> None:
    """ray-project/ray#7395: masks, and units, got lost on the way."""
    back = round_trip(array)
    assert type(back) is type(array)
    assert repr(back) == repr(array)


def test_memory_mapped_files_travel_as_tensors(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=(2, 2))
    mapped[:] = 7
    msg = encode(mapped, MsgInfo())
    assert describe(msg) == "float[2, 2]" and type(decode(msg)) is np.ndarray


class Unmakeable:
    """Can be pickled; making it again raises what it is told to."""

    def __init__(self, call: Callable[..., object], *arguments: object) -> None:
        self.made_by = call, arguments

    def __reduce__(self) -> tuple[object, ...]:
        return self.made_by


@pytest.mark.parametrize(("value", "said"), [
    (Unmakeable(int, "x"), "ValueError: invalid literal"), (Unmakeable(sys.exit, 3), "SystemExit"),
    (Unmakeable(getattr, sys, "no_such_name"), "AttributeError"),
    (Unmakeable(__import__, "no_such_module"), "ModuleNotFoundError"),
])
def test_object_that_cannot_be_made_again_is_an_error_of_dflow_with_the_cause(value: object, said: str) -> None:
    """ray-project/ray#49885."""
    with pytest.raises(PackagingError, match=said) as caught:
        round_trip({"inside": value})
    assert caught.value.__cause__ is not None and caught.value.hint


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 1 has no strings of any length")
def test_arrays_of_strings_of_any_length_say_what_to_make_of_them() -> None:
    with pytest.raises(TensorError, match=r"astype\(object\)"):
        encode(np.array(["a", "bb"], np.dtypes.StringDType()), MsgInfo())


def test_open_files_do_not_travel_and_standard_streams_are_those_of_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(tmp_path / "x", "w+") as file:
        with pytest.raises(PackagingError, match="open file belongs to its process"):
            encode({"file": file}, MsgInfo())
        monkeypatch.setattr(sys, "stdout", file)
        msg = encode([file], MsgInfo())
        monkeypatch.undo()
        assert decode(msg) == [sys.stdout]


@pytest.mark.parametrize("array", [np.zeros(2, np.complex64), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")])])
def test_arrays_no_tensor_can_hold_are_refused(array: np.ndarray) -> None:
    with pytest.raises(TensorError, match="cannot be sent"):
        encode(array, MsgInfo())


def test_none_is_a_null_message_distinct_from_an_empty_tensor() -> None:
    """BC-067."""
    null, empty = encode(None, MsgInfo()), encode(np.zeros(0), MsgInfo())
    assert null.is_null and decode(null) is None
    assert not empty.is_null and decode(empty) is not None


def test_bfloat16_bits_are_declared_by_tensor() -> None:
    msg = encode(Tensor(np.array([0x3F80], np.uint16), DataType.BF16), MsgInfo())
    assert describe(msg) == "bf16[1]"


def test_results_are_read_only_and_cannot_be_made_writable() -> None:
    """BC-018."""
    back = round_trip(np.arange(3))
    assert isinstance(back, np.ndarray)
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        back.flags.writeable = True


def test_views_keep_their_block_alive() -> None:
    """BC-016."""
    msg = encode(np.arange(24).reshape(4, 6), MsgInfo())
    array = decode(msg)
    assert isinstance(array, np.ndarray)
    part = array[1:, ::2]
    block = block_of(part)
    assert block is not None and block is msg.block


def test_allocated_array_goes_without_a_copy_and_is_handed_over() -> None:
    array = alloc_tensor((2, 3), np.dtype(np.float32), HeapBlock)
    array[:] = 7
    msg = encode(array, MsgInfo(trans_id=4))
    assert msg.block is not None and block_of(array) is not None
    assert msg.block.array().ctypes.data + DATA_OFFSET == array.ctypes.data
    assert not array.flags.writeable
    assert FlowMsg.from_block(msg.block).info.trans_id == 4


def test_array_passed_on_under_the_same_head_is_not_copied() -> None:
    first = encode(np.arange(1000), MsgInfo(trans_id=4))
    passed = encode(decode(first), first.info)
    assert passed.block is not None and first.block is not None
    assert passed.block.array().ctypes.data == first.block.array().ctypes.data


def test_array_passed_on_under_another_head_is_copied() -> None:
    first = encode(np.arange(1000), MsgInfo(trans_id=4))
    passed = encode(decode(first), MsgInfo(trans_id=5))
    assert passed.block is not None and first.block is not None
    assert passed.block.array().ctypes.data != first.block.array().ctypes.data
    assert first.info.trans_id == 4 and FlowMsg.from_block(first.block).info.trans_id == 4


def test_too_many_dimensions_are_refused() -> None:
    with pytest.raises(TensorError, match="32 dimensions"):
        encode(np.zeros((1,) * 33), MsgInfo())


def test_head_comes_back_whole() -> None:
    info = MsgInfo(
        2**64 - 2, MsgType.TENSOR, -5, 2**64 - 1, 3, 3, DataFlag.CUSTOM_ID, -1, 9, 2**64 - 1, 2**32 - 1, 7, 1, b"x" * 64
    )
    head = info.pack(10, 20)
    assert len(head) == 256
    assert MsgInfo.unpack(head) == (info, 10, 20)


def test_head_lies_where_upstream_has_it() -> None:
    head = MsgInfo(trans_id=1, ret_code=2, flags=3, data_label=4, route_label=5, user_data=b"u").pack(0)
    assert head[0:1] == b"u" and head[192] == 1 and head[204] == 2 and head[224] == 3
    assert head[248] == 4 and head[252] == 5


def test_user_data_over_64_bytes_is_refused() -> None:
    with pytest.raises(TensorError, match="64"):
        MsgInfo(user_data=b"x" * 65).pack(0)


def test_aux_comes_back_whole() -> None:
    members = tuple(Member(MsgInfo(trans_id=n, token=root_token(n), user_data=bytes(64)), n) for n in range(3))
    aux = Aux(members, ErrorInfo("node", "böse \ud800", "E", "n", 2, "tb", ("float[1]",)))
    assert Aux.unpack(aux.pack()) == aux
    assert Aux().pack() == b"" and not Aux.unpack(b"")


def test_broken_descriptor_is_refused() -> None:
    body = np.zeros(1024, np.uint8)
    body[24] = 200
    with pytest.raises(TensorError, match="rank"):
        TensorDesc.unpack_from(body, 0)
    body[24], body[16] = 1, 99
    with pytest.raises(TensorError, match="dtype"):
        TensorDesc.unpack_from(body, 0)


def test_payload_shorter_than_its_descriptor_is_refused() -> None:
    msg = encode(np.zeros(4), MsgInfo())
    assert msg.body is not None
    with pytest.raises(TensorError, match="too short"):
        decode(FlowMsg(msg.info, msg.body[:-1]))


def test_tokens_of_parts_differ_from_each_other_and_their_parent() -> None:
    tokens = {root_token(1), *(child_token(root_token(1), n) for n in range(1000))}
    assert len(tokens) == 1001


@pytest.mark.parametrize("value", [True, 7, 1 << 80, 2.5, 1j, "ü" * 100_000, b"\0" * 70_000])
def test_simple_objects_are_pickled_as_all_others(value: object) -> None:
    stream = io.BytesIO()
    cloudpickle.Pickler(stream, protocol=5).dump(value)
    msg = encode(value, MsgInfo())
    assert msg.body is not None and msg.body[64:].tobytes() == stream.getvalue()
    assert decode(msg) == value and type(decode(msg)) is type(value)


@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=4)), st.integers(0, 3), st.booleans())
def test_a_plain_block_is_what_encode_makes(array: np.ndarray, flag: int, is_base: bool) -> None:
    array = array if is_base else array[...]
    try:
        made = PlainBlock.of(array, HeapBlock)
    except TensorError:
        with pytest.raises(TensorError):
            encode(array, MsgInfo())
        return
    if made is not None:
        info = MsgInfo(trans_id=9, token=root_token(9), data_flag=flag & DataFlag.CUSTOM_ID)
        expected = encode(array, info).block
        assert expected is not None
        assert made.finish(9, root_token(9), info.data_flag).array().tobytes() == expected.array().tobytes()


@pytest.mark.parametrize("value", [3, None, np.float32(1), np.array(["a"]), np.array([None]), np.ma.zeros(2)])
def test_what_is_not_plain_is_no_plain_block(value: object) -> None:
    assert PlainBlock.of(value, HeapBlock) is None


def test_an_array_that_lies_in_a_block_is_not_copied_into_another() -> None:
    assert PlainBlock.of(alloc_tensor((2,), np.dtype(np.float32), HeapBlock), HeapBlock) is None
