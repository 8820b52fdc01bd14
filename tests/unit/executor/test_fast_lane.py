"""The short way through a node gives what the runner gives, byte for byte, and keeps the same account."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflow_core.builtin_transport import InprocTransport
from dflow_core.executor import InstanceRunner
from dflow_core.message import (
    Aux,
    Block,
    DataFlag,
    ErrorInfo,
    Flag,
    FlowMsg,
    Member,
    MsgInfo,
    MsgType,
    decode,
    encode,
    root_token,
    seal,
)
from dflow_core.model import InstancePlan, Route, UdfModel
from dflow_core.spi import FlowFunc, GroupConfig, MemoryGroup, Queue
from dflow_core.types import FuncSpec
from dflow_core.udf import MethodSpec, PythonFunc, python_funcs

ROOM = 200
"""Messages in a queue."""


class Bench:
    """One node with its queues, in this process.

    Args:
        call: Its function.
        outputs: How many it has; each has `readers` queues.
        is_short: Whether messages may go around the runner.
        memory: Bytes for messages; 0 is the default.
        inputs: How many it has.
    """

    def __init__(
        self, call: Callable[..., object], outputs: int = 1, readers: int = 1, is_short: bool = True,
        memory: int = 0, depth: int = ROOM, options: dict[str, str] | None = None,
        inputs: int = 1,
    ) -> None:
        self.group: MemoryGroup = InprocTransport().create_group(GroupConfig(memory_limit=memory))
        _zero_new_blocks(self.group)
        self.sources = [self.group.create_queue(f"in{port}", ROOM) for port in range(inputs)]
        self.targets = [
            [self.group.create_queue(f"out{output}.{reader}", depth) for reader in range(readers)]
            for output in range(outputs)
        ]
        spec = FuncSpec("call", tuple(range(inputs)), tuple(range(outputs)))
        package = PythonFunc("function", call, methods=(MethodSpec("call", outputs),))
        model = UdfModel(name="node", engine="UDF", functions=(spec,))
        routes = tuple(tuple(Route((queue.name,)) for queue in each) for each in self.targets)
        names = tuple(queue.name for queue in self.sources)
        plan = InstancePlan("node", 0, 1, "p", "cpu:0", 1, names, routes)
        self.notes: list[str] = []

        def load(_model: object, _context: object) -> Sequence[FlowFunc]:
            (func,) = python_funcs(package, [spec])
            if not is_short:
                func.direct = lambda: None  # type: ignore[method-assign]
            return [func]

        self.runner = InstanceRunner(model, plan, self.group, load, options or {}, None, [], self.notes.append)
        self.runner.load()
        self.reads, self.writes = self.runner._inputs[0], self.runner._outlet.queues

    def run(self, *messages: Sequence[FlowMsg]) -> None:
        """Give each of its inputs messages and let it work them off."""
        for queue, own in zip(self.sources, messages, strict=True):
            for msg in own:
                block = seal(msg, self.group.alloc).block
                assert block is not None
                queue.put(block)
            queue.close()
        # What it says of its thread ends with it; executors give it one of its own.
        contextvars.copy_context().run(self.runner.run)

    def sent(self) -> list[list[bytes]]:
        """What lies in each output queue, and takes it out."""
        return [[_bytes_of(block) for block in _drained(queue)] for each in self.targets for queue in each]

    @property
    def is_short(self) -> bool:
        """Whether the node takes the short way."""
        return self.runner._fast_lane() is not None


def _zero_new_blocks(group: MemoryGroup) -> None:
    """What nobody writes is compared too: the gaps in the body of an object."""
    alloc = group.alloc

    def alloc_zeros(size: int, timeout: float | None = 0.0) -> Block:
        block = alloc(size, timeout)
        block.array(writable=True)[:] = 0
        return block

    group.alloc = alloc_zeros  # type: ignore[method-assign]


def _drained(queue: Queue) -> Iterator[Block]:
    while queue.level():
        block = queue.get(0)
        assert block is not None
        yield block


def _bytes_of(block: Block) -> bytes:
    msg = FlowMsg.from_block(block)
    if msg.aux.error is not None and "dflow_core" in msg.aux.error.traceback:
        # Of our own code alone, which the two ways enter at different lines.
        aux = Aux(msg.aux.members, replace(msg.aux.error, traceback=msg.aux.error.traceback.splitlines()[-1]))
        return bytes(msg.info.pack(0)) + aux.pack()
    return block.array()[: msg.wire_size].tobytes()


def _reshape_in_place(x: np.ndarray) -> np.ndarray:
    x.shape = (x.size,)
    return x


def _retype_in_place(x: np.ndarray) -> np.ndarray:
    if x.dtype == np.float32:
        x.dtype = np.int32  # type: ignore[misc]
    return x


def _raise(x: object) -> object:
    raise KeyError("weights")


def _leave(x: object) -> object:
    raise SystemExit(3)


def _interrupt(x: object) -> object:
    raise KeyboardInterrupt


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


def _be_mute(x: object) -> object:
    raise Mute


def _parts(x: np.ndarray) -> Iterator[np.ndarray]:
    yield x
    yield x + 1


def _write(x: np.ndarray) -> np.ndarray:
    x += 1
    return x


CALLS: dict[str, Callable[..., object]] = {
    "itself": lambda x: x,
    "copy": lambda x: np.array(x),
    "view": lambda x: x[...],
    "transposed": lambda x: x.T,
    "transposed copy": lambda x: np.array(x).T,
    "every second": lambda x: np.array(x).ravel()[::2],
    "scalar": lambda x: np.float32(x.size),
    "python number": lambda x: 3,
    "nothing": lambda x: None,
    "big-endian": lambda x: np.array([1, 2], ">i4"),
    "no such dtype": lambda x: np.zeros(2, np.complex64),
    "strings": lambda x: np.array(["a", "b"]),
    "objects": lambda x: np.array([{}, x.size], object),
    "bits": lambda x: x > 0 if x.dtype.kind in "biuf" else x,
    "no elements": lambda x: np.zeros((3, 0), np.uint8),
    "many dimensions": lambda x: np.zeros((1,) * 20, np.int16),
    "array subclass": lambda x: np.zeros(3).view(np.recarray),
    "other shape in place": _reshape_in_place,
    "other dtype in place": _retype_in_place,
    "raises": _raise,
    "leaves": _leave,
    "interrupts": _interrupt,
    "cannot say what is wrong": _be_mute,
    "masked": lambda x: np.ma.masked_array(np.zeros(2), [True, False]),
    "parts": _parts,
    "writes to its input": _write,
    "tuple": lambda x: (x, x),
}
TWO: dict[str, Callable[..., object]] = {
    "the input twice": lambda x: (x, x),
    "input and copy": lambda x: (x, np.array(x)),
    "second fails": lambda x: (np.array(x), np.zeros(1, np.complex128)),
    "list": lambda x: [np.zeros(1), x],
    "too few": lambda x: (x,),
    "one array": lambda x: x,
    "nothing and object": lambda x: (None, "text"),
    "raises": _raise,
}


def info(number: int, **changes: object) -> MsgInfo:
    return MsgInfo(trans_id=number, token=root_token(number), **changes)  # type: ignore[arg-type]


def broken(number: int) -> FlowMsg:
    """A tensor whose data is shorter than its descriptor says."""
    whole = encode(np.zeros(8), info(number))
    assert whole.body is not None
    return FlowMsg(whole.info, whole.body[:-32])


def gone_by(number: int, flag: int, aux: Aux | None = None) -> FlowMsg:
    return FlowMsg(info(number, data_flag=flag | DataFlag.NULL), None, aux or Aux())


KINDS: dict[str, Callable[[int], FlowMsg]] = {
    "floats": lambda n: encode(np.arange(n % 7 * 2, dtype=np.float32).reshape(2, -1), info(n)),
    "number": lambda n: encode(np.array(n), info(n)),
    "bytes and user data": lambda n: encode(np.arange(5, dtype=np.uint8), info(n, user_data=b"u" * 64, start_time=9)),
    "own id": lambda n: encode(np.zeros(3), info(n, data_flag=DataFlag.CUSTOM_ID)),
    "part": lambda n: encode(np.zeros(3, np.int16), info(n, data_label=4, route_label=2, end_time=7)),
    "strings": lambda n: encode(np.array(["ü", ""]), info(n)),
    "object": lambda n: encode({"n": n}, info(n)),
    "null": lambda n: encode(None, info(n)),
    "end of sequence": lambda n: encode(None, info(n, flags=Flag.EOS)),
    "segment": lambda n: encode(np.zeros(2), info(n, flags=Flag.SEG)),
    "code": lambda n: encode(np.zeros(2), info(n, ret_code=7)),
    "skip": lambda n: gone_by(n, DataFlag.SKIP),
    "end": lambda n: gone_by(n, DataFlag.END),
    "error": lambda n: gone_by(n, DataFlag.ERROR, Aux(error=ErrorInfo("node", "front", "ValueError"))),
    "answer for a dead executor": lambda n: gone_by(
        n, DataFlag.ERROR | DataFlag.INJECTED, Aux(error=ErrorInfo("lost", "killed"))
    ),
    "batch": lambda n: encode(np.zeros((2, 3)), info(n), aux=Aux((Member(info(n)), Member(info(n + 1000))))),
    "raw": lambda n: FlowMsg(info(n, msg_type=MsgType.RAW), np.arange(9, dtype=np.uint8)),
    "broken": broken,
}


def compare(call: Callable[..., object], kinds: Sequence[str], outputs: int = 1, readers: int = 1) -> None:
    found = []
    for is_short in (True, False):
        bench = Bench(call, outputs, readers, is_short)
        assert bench.is_short is is_short
        bench.run([KINDS[kind](n) for n, kind in enumerate(kinds, 1)])
        found.append((bench.sent(), bench.runner.calls, bench.runner.current, bench.notes))
        bench.runner.close()
        assert bench.group.stats().blocks_in_use == 0
    assert found[0] == found[1]


@pytest.mark.parametrize("name", CALLS)
def test_both_ways_send_the_same_for_every_kind_of_message(name: str) -> None:
    compare(CALLS[name], [*KINDS, *KINDS])


@pytest.mark.parametrize("name", TWO)
def test_both_ways_send_the_same_on_several_outputs(name: str) -> None:
    compare(TWO[name], list(KINDS), outputs=2)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(list(KINDS)), st.sampled_from(list(CALLS))), max_size=30),
    st.integers(1, 3),
)
def test_both_ways_send_the_same_whatever_follows_whatever(steps: list[tuple[str, str]], readers: int) -> None:
    def make() -> Callable[..., object]:
        def call(x: object) -> object:
            done.append(1)
            return CALLS[steps[len(done) % len(steps)][1]](x)

        done: list[int] = []
        return call

    found = []
    for is_short in (True, False):
        bench = Bench(make(), readers=readers, is_short=is_short)
        bench.run([KINDS[kind](n) for n, (kind, _) in enumerate(steps, 1)])
        found.append((bench.sent(), bench.runner.calls))
    assert found[0] == found[1]


def test_an_input_goes_on_in_the_block_it_came_in() -> None:
    bench = Bench(lambda x: x)
    bench.run([KINDS["floats"](n) for n in range(1, 9)])
    assert bench.group.stats().blocks_in_use == 8
    assert [queue.level() for each in bench.targets for queue in each] == [8]


def test_an_array_that_the_function_keeps_stays_what_it_was() -> None:
    kept: list[np.ndarray] = []

    def keep(x: np.ndarray) -> np.ndarray:
        kept.append(x[1:] if len(kept) % 2 else x)
        return x

    bench = Bench(keep)
    bench.run([encode(np.full(64, n, np.int64), info(n)) for n in range(1, 21)])
    assert len(bench.sent()[0]) == 20
    for _ in range(40):
        bench.group.alloc(2048).array(writable=True)[:] = 255
    assert [int(x[5]) for x in kept] == list(range(1, 21))
    kept.clear()
    assert bench.group.stats().blocks_in_use == 0


def test_no_message_is_held_while_the_node_waits_for_the_next() -> None:
    bench = Bench(lambda x: x + 1)
    levels: list[int] = []
    get = bench.reads.get

    def looking(timeout: float | None = None) -> Block | None:
        levels.append(bench.group.stats().blocks_in_use - bench.targets[0][0].level() - bench.sources[0].level())
        return get(timeout)

    bench.reads.get = looking  # type: ignore[method-assign]
    bench.run([KINDS["floats"](n) for n in range(1, 6)])
    assert levels == [0] * 6


def test_a_message_that_finds_no_memory_waits_for_it_and_is_sent() -> None:
    bench = Bench(lambda x: np.full(60_000, 5, np.uint8), memory=300_000)
    tries: list[int] = []
    alloc_like = bench.group.alloc_like
    held = [bench.group.alloc(60_000) for _ in range(4)]

    def failing(head: Block, array: np.ndarray) -> Block:
        tries.append(1)
        try:
            return alloc_like(head, array)
        finally:
            held.clear()

    bench.group.alloc_like = failing  # type: ignore[method-assign,assignment]
    bench.run([encode(np.zeros(2), info(1))])
    assert [len(each) for each in bench.sent()] == [1] and len(tries) == 1


def test_a_message_larger_than_all_memory_ends_its_transaction_only() -> None:
    def large(x: np.ndarray) -> np.ndarray:
        return np.zeros(10_000_000, np.uint8) if x[0] == 1 else x

    bench = Bench(large, memory=1_000_000)
    bench.run([encode(np.array([n]), info(n)) for n in (1, 2)])
    first, second = (FlowMsg.from_block(block) for block in _drained(bench.targets[0][0]))  # type: ignore[arg-type]
    assert first.aux.error is not None and first.aux.error.error_type == "PoolExhaustedError"
    assert second.is_data


@pytest.mark.parametrize("result", [lambda x: x, lambda x: x + 1])
def test_stopping_at_a_full_queue_leaves_without_a_note_and_lets_go(result: Callable[..., object]) -> None:
    bench = Bench(result, depth=2)
    queue = bench.writes["out0.0"]
    put = queue.put

    def full(block: Block, timeout: float | None = None) -> None:
        if queue.level() == 2:
            bench.runner.stop()
        put(block, 0)

    queue.put = full  # type: ignore[method-assign]
    bench.run([KINDS["floats"](n) for n in range(1, 9)])
    assert bench.notes == [] and len(bench.sent()[0]) == 2
    assert bench.group.stats().blocks_in_use == bench.sources[0].level() == 5


def test_a_closed_output_queue_ends_the_node_with_a_note() -> None:
    bench = Bench(lambda x: x)
    bench.targets[0][0].close()
    bench.run([KINDS["floats"](1)])
    assert bench.notes == ["an output queue was closed; leaving"]
    assert bench.group.stats().blocks_in_use == 0


def test_nodes_that_do_more_take_the_long_way(tmp_path: Path) -> None:
    traced = Bench(lambda x: x, options={"trace": str(tmp_path)})
    assert not traced.is_short
    traced.run([KINDS["floats"](1)])
    traced.runner.close()
    assert len(traced.sent()[0]) == 1 and any(tmp_path.iterdir())


JOINS: dict[str, Callable[..., object]] = {
    "first": lambda x, y: x,
    "second": lambda x, y: y,
    "new": lambda x, y: np.array([1.5]),
    "size": lambda x, y: 7,
    "nothing": lambda x, y: None,
    "raises": lambda x, y: _raise(x),
    "other shape in place": lambda x, y: _reshape_in_place(x) if isinstance(x, np.ndarray) else x,
}
Arrivals = list[tuple[int, str]]
"""Transaction and kind of each message of an input, as they arrive."""


@st.composite
def arrivals(draw: st.DrawFn) -> Arrivals:
    """Mostly plain messages, mostly in order, some missing and some twice."""
    numbers = draw(st.lists(st.integers(1, 8), max_size=12)) if draw(st.booleans()) else list(range(1, 9))
    kinds = st.sampled_from(["floats", "floats", "number", "part", *KINDS])
    return [(number, draw(kinds)) for number in numbers]


@settings(max_examples=120, deadline=None)
@given(arrivals(), arrivals(), st.sampled_from(list(JOINS)))
def test_both_ways_of_a_join_send_the_same_whatever_arrives(left: Arrivals, right: Arrivals, name: str) -> None:
    found = []
    for is_short in (True, False):
        bench = Bench(JOINS[name], inputs=2, is_short=is_short)
        assert bench.is_short is is_short
        bench.run(*([KINDS[kind](n) for n, kind in side] for side in (left, right)))
        found.append((bench.sent(), bench.runner.calls, bench.runner.current))
        bench.runner.close()
    assert found[0] == found[1]


def test_a_join_whose_inputs_come_apart_pairs_all_and_lets_everything_go() -> None:
    bench = Bench(lambda x, y, z: x + y + z, inputs=3)
    numbers = range(1, 31)
    orders = [numbers, reversed(numbers), sorted(numbers, key=lambda n: n % 7)]
    bench.run(*([encode(np.array([n]), info(n)) for n in order] for order in orders))
    blocks = list(_drained(bench.targets[0][0]))
    assert sorted(int(decode(FlowMsg.from_block(block))[0]) for block in blocks) == [3 * n for n in numbers]
    del blocks
    assert bench.runner.calls == 30 and bench.group.stats().blocks_in_use == 0


def test_what_waits_for_its_partner_finds_it_behind_a_message_that_is_not_plain() -> None:
    bench = Bench(lambda x, y: x, inputs=2)
    bench.run(
        [KINDS["floats"](1), KINDS["skip"](2), KINDS["floats"](3)],
        [KINDS["floats"](3), KINDS["floats"](2), KINDS["floats"](1)],
    )
    msgs = [FlowMsg.from_block(block) for block in _drained(bench.targets[0][0])]
    assert sorted((msg.info.trans_id, msg.is_data) for msg in msgs) == [(1, True), (2, False), (3, True)]
