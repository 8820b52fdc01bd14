"""What goes with a transaction."""

from __future__ import annotations

import pytest

import dataflow as df


def test_it_says_what_it_was_given() -> None:
    info = df.FlowInfo(1, 2, df.FlowFlag.DATA_FLOW_FLAG_EOS, 4)
    assert str(info) == "FlowInfo(start_time=1, end_time=2, flow_flags=1, transaction_id=4)"
    info.start_time, info.transaction_id = 5, 6
    assert (info.start_time, info.end_time, info.transaction_id) == (5, 2, 6)


def test_user_data_is_written_in_place_and_read_back() -> None:
    info = df.FlowInfo()
    assert (info.data_size, len(info.user_data)) == (0, 64)
    info.set_user_data(b"abc", 2)
    info.set_user_data(bytearray(b"x"))
    assert info.data_size == 5
    assert info.get_user_data(3, 2) == bytearray(b"abc")
    assert info.get_user_data() == info.user_data
    assert info.get_user_data(0, 60) == bytearray(4)


@pytest.mark.parametrize(("data", "offset"), [(b"", 0), (b"a", 64), (b"a", -1), (b"a" * 65, 0), (b"ab", 63)])
def test_user_data_lies_within_64_bytes(data: bytes, offset: int) -> None:
    with pytest.raises(df.DfException) as error:
        df.FlowInfo().set_user_data(data, offset)
    assert error.value.error_code == 145000
    with pytest.raises(df.DfException):
        df.FlowInfo().get_user_data(len(data) or 65, offset)


def test_flags_can_be_combined() -> None:
    assert int(df.FlowFlag.DATA_FLOW_FLAG_EOS | df.FlowFlag.DATA_FLOW_FLAG_SEG) == 3


@pytest.mark.parametrize(("keep", "wanted"), [(True, 7), (False, 0)])
def test_the_core_gets_what_counts(keep: bool, wanted: int) -> None:
    info = df.FlowInfo(1, 2, 3, 7)
    info.set_user_data(b"abc")
    given = info.to_core(keep_id=keep)
    assert (given.start_time, given.end_time, given.flow_flags, given.transaction_id) == (1, 2, 3, wanted)
    assert given.user_data == b"abc"
