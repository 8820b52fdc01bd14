"""The way of failed calls: from Python and from native code, and what happens where there is no room or no sense."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from dflow_core.builtin_transport import InprocTransport
from dflow_core.errors import ModelFormatError
from dflow_core.executor.failed_calls import FAILED_CALLS, arrived_calls, call_sender, native_call, with_failed_calls
from dflow_core.message import Aux, ErrorInfo, FlowMsg, HeapBlock, Member, MsgInfo, decode, encode, seal
from dflow_core.model import DeployPlan, read_frame
from dflow_core.recording import FailedCall, message_bytes
from dflow_core.spi import GroupConfig, MemoryGroup

ERROR = ErrorInfo("node", "bad ü", "std::runtime_error", "cpp", 3, "", ("int64[1]",), "a hint")


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    with contextlib.closing(InprocTransport().create_group(GroupConfig(memory_limit=1 << 20))) as made:
        yield made


def message(trans_id: int, value: int = 0, aux: Aux = Aux()) -> FlowMsg:  # noqa: B008
    return encode(np.array([value]), MsgInfo(trans_id=trans_id), HeapBlock, aux)


def call(*messages: FlowMsg) -> FailedCall:
    return FailedCall("n", 0, 0, messages[0], messages, ERROR)


def native(function: int, messages: Sequence[bytes], ports: Sequence[int] = (), error: bytes | None = None) -> bytes:
    """As the C++ runtime writes it."""
    aux = Aux(error=ERROR).pack() if error is None else error
    inputs = ports or range(len(messages))
    start = b"dflowfc1" + struct.pack("<4I", function, len(messages), bool(ports), 0)
    start += struct.pack(f"<{len(messages)}I", *inputs)
    start += bytes(-len(start) % 8) + struct.pack(f"<{1 + len(messages)}Q", len(aux), *map(len, messages))
    return start + aux + b"".join(messages)


def read(data: bytes) -> FailedCall:
    return FailedCall.from_frame(read_frame(data))


def test_calls_arrive_in_order_and_leave_nothing_behind(group: MemoryGroup) -> None:
    group.create_queue(FAILED_CALLS, 4)
    send = call_sender(group)
    for number in (1, 2):
        send(call(message(number, 10 * number)))
    found = [read(one) for one in arrived_calls(group.queue(FAILED_CALLS))]
    assert [(one.trans_ids, decode(one.inputs[0]).tolist()) for one in found] == [  # type: ignore[attr-defined]
        ((1,), [10]), ((2,), [20]),
    ]
    assert arrived_calls(group.queue(FAILED_CALLS)) == [] and group.stats().bytes_in_use == 0


def test_what_finds_no_room_is_left_out_without_waiting(group: MemoryGroup) -> None:
    group.create_queue(FAILED_CALLS, 2)
    send = call_sender(group)
    for number in range(1, 5):
        send(call(message(number)))
    big = FailedCall("n", 0, 0, None, (FlowMsg(MsgInfo(trans_id=9), np.zeros(2 << 20, np.uint8)),), ERROR)
    send(big)
    assert [read(one).trans_ids for one in arrived_calls(group.queue(FAILED_CALLS))] == [(1,), (2,)]
    group.queue(FAILED_CALLS).close()
    send(call(message(5)))
    assert arrived_calls(group.queue(FAILED_CALLS)) == [] and group.stats().bytes_in_use == 0


def test_a_plan_with_the_queue_has_all_others_still() -> None:
    plan = with_failed_calls(DeployPlan("g", "", (), (), (), (), 1))
    assert [queue.name for queue in plan.queues] == [FAILED_CALLS]


NATIVE = [
    ("a set of inputs", native(1, [message_bytes(message(4, 7)), message_bytes(message(4, 8))]), 1, [7, 8], ()),
    ("taken from queues", native(0, [message_bytes(message(n, n)) for n in (1, 2)], [1, 0]), 0, [1, 2], (1, 0)),
    ("a timer", native(2, []), 2, [], ()),
]


@pytest.mark.parametrize(("what", "data", "function", "values", "ports"), NATIVE)
def test_native_code_tells_the_same(
    group: MemoryGroup, what: str, data: bytes, function: int, values: list[int], ports: tuple[int, ...]
) -> None:
    queue = group.create_queue(FAILED_CALLS, 4)
    msg = FlowMsg(MsgInfo(msg_type=1), np.frombuffer(data, np.uint8))
    block = seal(msg, lambda size: group.alloc(size, 0.0)).block
    assert block is not None
    queue.put(block, 0.0)
    (arrived,) = arrived_calls(queue)
    found = read(arrived)
    assert (found.node, found.instance, found.function, found.ports) == ("cpp", 3, function, ports)
    assert [decode(one).tolist() for one in found.inputs] == [[value] for value in values]  # type: ignore[attr-defined]
    assert found.error == ERROR


def test_members_of_a_batch_come_from_native_code_too() -> None:
    members = tuple(Member(MsgInfo(trans_id=n), 1) for n in (4, 5))
    assert native_call(native(0, [message_bytes(message(4, aux=Aux(members)))])).trans_ids == (4, 5)


GOOD = native(0, [message_bytes(message(1))])


@pytest.mark.parametrize(
    "data",
    [GOOD[:8], GOOD[:20], GOOD[:40], GOOD[:-1], GOOD[:60] + b"\xff" * (len(GOOD) - 60), native(0, [b"short"]),
     native(0, [], error=b""), native(0, [], error=Aux().pack()), native(0, [], error=b"\0\0\0\0{}")],
)
def test_what_is_no_call_is_refused_and_passes_the_caller_by(group: MemoryGroup, data: bytes) -> None:
    """The recorder says that it left it out; who feeds and fetches does not notice."""
    with pytest.raises(ModelFormatError):
        native_call(data)
    queue = group.create_queue(FAILED_CALLS, 4)
    block = seal(FlowMsg(MsgInfo(msg_type=1), np.frombuffer(data, np.uint8)), lambda size: group.alloc(size, 0.0)).block
    assert block is not None
    queue.put(block, 0.0)
    assert arrived_calls(queue) == [data]
