"""The same messages through the Python node runner and the native one: what comes out must be the same."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from dflow_core.executor.node.node_runner import NodeRunner
from dflow_core.message import (
    Aux,
    DataFlag,
    ErrorInfo,
    FlowMsg,
    HeapBlock,
    Member,
    MsgInfo,
    child_token,
    encode,
    root_token,
    seal,
)
from dflow_core.model import UdfModel
from dflow_core.spi import FlowFunc, RunContext
from dflow_core.types import FuncSpec

Step = tuple[int, FlowMsg]


class SendFirst(FlowFunc):
    """What the C++ function `first_input` does."""

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        context.send(0, inputs[0])


def in_python(ports: int, steps: Sequence[Step]) -> list[FlowMsg]:
    """What the Python node sends."""
    spec = FuncSpec("first_input", tuple(range(ports)), (0,))
    model = UdfModel(name="node", engine="UDF", functions=(spec,))
    sent: list[FlowMsg] = []
    runner = NodeRunner(model, [SendFirst()], instance=1, sink=lambda _, msg: sent.append(msg), alloc=HeapBlock)
    for port, msg in steps:
        runner.accept(port, FlowMsg.from_block(seal(msg, HeapBlock).block))
    return sent


def natively(rig: object, steps: Sequence[Step], count: int) -> list[FlowMsg]:
    """What the native node sends; each message is fed when it has taken the one before."""
    for port, msg in steps:
        rig.put(msg, port)
        while rig.heap.table.level(rig.heap.table.context, rig.ins[port]):
            time.sleep(0)
    rig.end()
    sent = [rig.get() for _ in range(count)]
    assert rig.is_silent(), "the native node sent more"
    return sent


def readable(msg: FlowMsg) -> tuple[object, ...]:
    """What must be the same: head, payload, members, error."""
    members = [(m.info.pack(0), m.rows) for m in msg.aux.members]
    body = None if msg.body is None else msg.body.tobytes()
    return bytes(msg.info.pack(0)), body, members, msg.aux.error


def data(
    trans_id: int, label: int = 0, token: int | None = None, members: Sequence[int] = (), flag: int = 0
) -> FlowMsg:
    """A data message, or an ending if `flag` says so."""
    info = MsgInfo(trans_id, token=root_token(trans_id) if token is None else token, data_label=label)
    heads = tuple(Member(MsgInfo(m, token=root_token(m)), rows=2) for m in members)
    error = ErrorInfo("node", "it broke", "ValueError", "before", 2, "trace", ("float32[1]",), "mend it")
    if flag:
        info.data_flag = flag | DataFlag.NULL
        return FlowMsg(info, None, Aux(heads, error if flag & DataFlag.ERROR else None))
    return encode(np.array([trans_id, label]), info, aux=Aux(heads))


def shuffled(streams: Sequence[Sequence[FlowMsg]], dice: random.Random) -> Iterator[Step]:
    """The messages of all ports; the order on each port stays unless they are shuffled before."""
    left = [list(stream) for stream in streams]
    while any(left):
        port = dice.choice([port for port, stream in enumerate(left) if stream])
        yield port, left[port].pop(0)


def some_stream(dice: random.Random, count: int) -> list[FlowMsg]:
    """Messages for transactions 1 to `count` on one port: data, endings, parts, batches, lost ones put in."""
    stream: list[FlowMsg] = []
    trans_id = 1
    while trans_id <= count:
        kind = dice.random()
        if kind < 0.15:
            stream.append(data(trans_id, flag=dice.choice([DataFlag.SKIP, DataFlag.ERROR])))
        elif kind < 0.3 and trans_id + 2 <= count:
            members = [trans_id, trans_id + 1, trans_id + 2]
            flag = dice.choice([0, 0, DataFlag.SKIP, DataFlag.ERROR])
            stream.append(data(trans_id, members=members, flag=flag))
            trans_id += 2
        elif kind < 0.4:
            stream += [data(trans_id), data(trans_id, flag=DataFlag.ERROR | DataFlag.INJECTED)]
        else:
            stream.append(data(trans_id))
        trans_id += 1
    if dice.random() < 0.5:
        dice.shuffle(stream)
    return stream


@pytest.mark.parametrize("seed", range(40))
def test_joins_answer_alike(make_rig: Callable, seed: int) -> None:
    dice = random.Random(seed)
    ports = dice.choice([1, 2, 2, 3])
    steps = list(shuffled([some_stream(dice, 12) for _ in range(ports)], dice))
    expected = in_python(ports, steps)
    rig = make_rig(("first_input", tuple(range(ports))), inputs=ports, depth=128).start()
    got = natively(rig, steps, len(expected))
    assert [readable(msg) for msg in got] == [readable(msg) for msg in expected]


def test_parts_pair_with_parts_and_not_with_a_single_message(make_rig: Callable) -> None:
    parts = [data(1, index + 1, child_token(root_token(1), index)) for index in range(2)]
    token = root_token(1) ^ parts[0].info.token ^ parts[1].info.token
    end = data(1, 0, token, flag=DataFlag.END)
    single = data(2)
    stray = [data(2, flag=DataFlag.END, token=5), data(2, 1)]
    steps = [(port, msg) for msg in (*parts, end) for port in (1, 0)]
    steps += [(0, single), (1, stray[0]), (1, stray[1]), (0, data(3)), (1, data(3))]
    expected = in_python(2, steps)
    assert any(msg.aux.error for msg in expected)
    rig = make_rig(("first_input", (0, 1)), inputs=2, depth=128).start()
    got = natively(rig, steps, len(expected))
    assert [readable(msg) for msg in got] == [readable(msg) for msg in expected]


def test_lost_parts_are_dropped(make_rig: Callable) -> None:
    rig = make_rig(("first_input", (0, 1)), inputs=2, dead=[(1, 0, [0])]).start()
    rig.put(data(1), 1)  # its other part went with the former process
    rig.put(data(2), 0)
    rig.put(data(2), 1)
    assert rig.get().info.trans_id == 2
    rig.end()
    assert (rig.is_silent(), rig.stats().pending) == (True, 0)


def test_incomplete_sets_go_to_the_function_when_they_are_old(make_rig: Callable) -> None:
    options = {"align_max_cache": 8, "align_timeout_ms": 20}
    rig = make_rig(("first_input", (0, 1)), inputs=2, options=options).start()
    rig.put(data(1), 1)
    out = rig.get()
    assert (out.info.trans_id, int(out.get_tensor())) == (1, 1)
    assert out.info.token == root_token(1)
    rig.put(data(1), 0)  # late: the set was given out without it
    for port in (0, 1):
        rig.put(data(2), port)
    assert rig.get().info.trans_id == 2
    rig.end()
    assert (rig.is_silent(), rig.stats().pending, rig.stats().calls) == (True, 0, 2)


def test_a_message_that_comes_after_one_put_in_for_it_is_dropped(make_rig: Callable) -> None:
    put_in = data(1, flag=DataFlag.SKIP | DataFlag.NULL | DataFlag.INJECTED)
    steps = [(0, put_in), (0, data(1)), (1, data(1)), (1, data(2)), (0, data(2))]
    expected = in_python(2, steps)
    assert len(expected) == 2
    rig = make_rig(("first_input", (0, 1)), inputs=2).start()
    got = natively(rig, steps, len(expected))
    assert [readable(msg) for msg in got] == [readable(msg) for msg in expected]


def test_incomplete_sets_that_are_too_many_end_with_an_error(make_rig: Callable) -> None:
    options = {"align_max_cache": 2, "align_drop": 1}
    rig = make_rig(("first_input", (0, 1)), inputs=2, options=options).start()
    for trans_id in (3, 1, 2):
        rig.put(data(trans_id), 0)
    out = rig.get()
    assert (out.info.trans_id, out.aux.error.kind) == (1, "late")
    assert out.aux.error.message == "input 1 did not come within the limits of the alignment"
    rig.put(data(1), 1)  # late: dropped
    rig.put(data(2), 1)
    assert rig.get().info.trans_id == 2
    rig.end()
    assert rig.stats().pending == 1


def test_a_set_that_is_given_up_ends_as_what_came_of_it_says(make_rig: Callable) -> None:
    options = {"align_max_cache": 8, "align_timeout_ms": 20, "align_drop": 1}
    rig = make_rig(("first_input", (0, 1)), inputs=2, options=options).start()
    rig.put(data(1, flag=DataFlag.SKIP | DataFlag.NULL), 0)
    out = rig.get()
    assert (out.info.trans_id, out.info.data_flag, out.aux.error) == (1, DataFlag.SKIP | DataFlag.NULL, None)


def test_a_function_that_keeps_its_inputs_ends_them_when_it_lets_go(make_rig: Callable) -> None:
    rig = make_rig("buffer").start()
    for trans_id in (1, 2, 3):
        rig.put(data(trans_id))
    outs = [rig.get() for _ in range(3)]
    skips = {out.info.trans_id for out in outs if out.info.data_flag & DataFlag.SKIP}
    results = [out for out in outs if not out.info.data_flag & DataFlag.SKIP]
    assert skips == {1, 2}
    assert [(out.info.trans_id, int(out.get_tensor())) for out in results] == [(3, 3)]


def test_what_is_kept_at_the_end_is_skipped(make_rig: Callable) -> None:
    rig = make_rig("buffer").start()
    rig.put(data(1))
    rig.end()
    assert rig.get().info.data_flag & DataFlag.SKIP
