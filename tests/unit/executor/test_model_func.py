"""Models whose calls overlap with the work around them: order, errors, statistics, and when they must not."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from dflow_core.errors import ClosedError, StartupError, UsageError
from dflow_core.executor import NodeRunner
from dflow_core.executor.node.model_func import ModelFunc
from dflow_core.message import Aux, DataFlag, FlowMsg, Member, MsgInfo, decode, encode, root_token
from dflow_core.spi import FuncParams, ModelWorker, OutputAlloc
from dflow_core.testing.clock import FakeClock
from dflow_core.types import Array, DataType, TensorSpec
from tests.unit.executor.support import Func, Node, inline, message


class Worker(ModelWorker):
    """Doubles; fails on the values in `bad`. Remembers what was asked of it."""

    inputs = (TensorSpec(DataType.INT64, ()),)
    outputs = (TensorSpec(DataType.INT64, ()),)
    depth = 2

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.seconds = 0.001
        self.bad: set[int] = set()
        self.bad_to_begin: set[int] = set()
        self.log: list[str] = []
        self.open: list[int] = []
        self.on_begin: Callable[[], None] = lambda: None

    def execute(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Sequence[Array]:
        assert not self.open, "execute with calls in flight"
        self.log.append(f"run {int(inputs[0])}")
        self.clock.now += self.seconds
        return self._answer(int(inputs[0]), alloc)

    def begin(self, inputs: Sequence[Array], alloc: OutputAlloc) -> object:
        value = int(inputs[0])
        self.log.append(f"begin {value}")
        self.on_begin()
        if value in self.bad_to_begin:
            raise ValueError(f"cannot begin {value}")
        assert len(self.open) < self.depth
        self.open.append(value)
        return inputs, alloc

    def finish(self, call: object) -> Sequence[Array]:
        inputs, alloc = call  # type: ignore[misc]
        value = int(inputs[0])
        assert value == self.open.pop(0), "out of order"
        self.log.append(f"finish {value}")
        self.clock.now += self.seconds
        return self._answer(value, alloc)

    def close(self) -> None:
        self.log.append("close")
        self.open.clear()

    def _answer(self, value: int, alloc: OutputAlloc) -> Sequence[Array]:
        if value in self.bad:
            raise ValueError(f"bad {value}")
        result = alloc((), np.dtype(np.int64))
        result[...] = value * 2
        return [result]


@dataclass
class Setup:
    """A node of one such model, with a queue of messages in front that only it takes from."""

    calls: list[tuple[int, float, float]] = field(default_factory=list)
    is_waiting: bool = True

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.worker = Worker(self.clock)
        node = Node("model", ModelFunc(self.worker), ["x"])
        self.runner: NodeRunner = node.runner(
            clock=self.clock, waiting=lambda: self.is_waiting, on_call=lambda *call: self.calls.append(call)
        )
        self.sent = node.sent

    def warm(self) -> Setup:
        """One call before, by itself, so that it is known that calls are short."""
        self.feed(100)
        assert self.worker.log == ["run 100"]
        self.worker.log.clear()
        self.sent.clear()
        self.calls.clear()
        return self

    def feed(self, *values: int) -> None:
        for value in values:
            self.runner.accept(0, message(value))

    @property
    def results(self) -> list[object]:
        """What was sent: numbers, None for null messages, the words of errors."""
        return [m.aux.error.message if m.aux.error else decode(m) for _, m in self.sent]

    @property
    def transactions(self) -> list[int]:
        return [m.info.trans_id for _, m in self.sent]


@pytest.fixture
def setup() -> Setup:
    return Setup().warm()


def test_next_call_begins_before_the_one_in_front_ends(setup: Setup) -> None:
    setup.feed(1, 2, 3)
    assert setup.worker.log == ["begin 1", "begin 2", "finish 1", "begin 3", "finish 2"]
    assert setup.results == [2, 4]
    setup.runner.settle()
    assert setup.results == [2, 4, 6] and setup.transactions == [1, 2, 3]


def test_results_are_sent_where_they_were_written(setup: Setup) -> None:
    made: list[Array] = []
    answer = setup.worker._answer

    def remember(value: int, alloc: OutputAlloc) -> Sequence[Array]:
        made.extend(answer(value, alloc))
        return made[-1:]

    setup.worker._answer = remember  # type: ignore[method-assign]
    setup.feed(1, 2)
    setup.runner.settle()
    for array, (_, msg) in zip(made, setup.sent, strict=True):
        assert np.shares_memory(array, msg.body)  # type: ignore[arg-type]


def test_a_message_alone_is_run_at_once(setup: Setup) -> None:
    setup.is_waiting = False
    setup.feed(1, 2)
    assert setup.worker.log == ["run 1", "run 2"] and setup.results == [2, 4]


def test_last_of_a_row_still_overlaps_with_the_one_in_front(setup: Setup) -> None:
    setup.feed(1)
    setup.is_waiting = False
    setup.feed(2)
    assert setup.worker.log == ["begin 1", "begin 2", "finish 1"]
    setup.runner.settle()
    assert setup.results == [2, 4]


@pytest.mark.parametrize("bad", [1, 2])
def test_an_error_ends_its_own_transaction_only_and_in_order(setup: Setup, bad: int) -> None:
    setup.worker.bad = {bad}
    setup.feed(1, 2)
    setup.runner.settle()
    assert setup.transactions == [1, 2]
    assert setup.results == [f"bad {v}" if v == bad else v * 2 for v in (1, 2)]
    assert setup.runner.last_failed == bad


def test_a_call_that_does_not_begin_fails_behind_those_in_front(setup: Setup) -> None:
    setup.worker.bad_to_begin = {2}
    setup.feed(1, 2, 3)
    setup.runner.settle()
    assert setup.transactions == [1, 2, 3] and setup.results == [2, "cannot begin 2", 6]


def test_an_overlapping_call_fails_with_the_same_words_as_one_alone(setup: Setup) -> None:
    setup.worker.bad = {1}
    setup.feed(1, 2)
    setup.is_waiting = False
    setup.runner.settle()
    setup.feed(1)
    first, _, alone = (m.aux.error for _, m in setup.sent)
    assert first is not None and alone is not None
    assert (first.node, first.instance, first.error_type, first.message) == ("model", 0, "ValueError", "bad 1")
    assert first.input_shapes == alone.input_shapes == ("int64[]",)
    line = 'raise ValueError(f"bad {value}")'
    assert line in first.traceback and line in alone.traceback
    assert first.traceback.splitlines()[0] == alone.traceback.splitlines()[0]


def test_wrong_shape_among_overlapping_calls_is_told(setup: Setup) -> None:
    setup.feed(1)
    setup.runner.accept(0, message(2, np.zeros(3, np.int64)))
    assert setup.results[0] == 2 and "input 0" in str(setup.results[1])


def test_a_null_message_keeps_its_place(setup: Setup) -> None:
    setup.feed(1)
    info = MsgInfo(2, token=root_token(2), flags=1)
    setup.runner.accept(0, encode(None, info))
    setup.feed(3)
    setup.runner.settle()
    assert setup.results == [2, None, 6] and setup.transactions == [1, 2, 3]


@pytest.mark.parametrize("flag", [DataFlag.SKIP, DataFlag.ERROR, DataFlag.END])
def test_what_passes_by_keeps_its_place(setup: Setup, flag: int) -> None:
    setup.feed(1)
    msg = message(2)
    msg.info.data_flag |= flag
    setup.runner.accept(0, msg)
    assert setup.transactions == [1, 2]


def test_end_of_the_graph_sends_what_is_in_flight(setup: Setup) -> None:
    setup.feed(1, 2)
    setup.runner.finish()
    assert setup.results == [2, 4] and not setup.worker.open


def test_close_leaves_the_calls_in_flight_to_the_worker(setup: Setup) -> None:
    setup.feed(1)
    setup.runner.close()
    assert setup.worker.log == ["begin 1", "close"] and not setup.sent


def test_members_of_a_batch_go_with_its_result(setup: Setup) -> None:
    members = tuple(Member(MsgInfo(n, token=root_token(n))) for n in (7, 8))
    setup.runner.accept(0, encode(np.array(7), MsgInfo(7, token=root_token(7)), aux=Aux(members)))
    setup.feed(9)
    setup.runner.settle()
    assert [list(m.keys) for _, m in setup.sent] == [[(7, 0), (8, 0)], [(9, 0)]]
    setup.worker.bad = {7}
    setup.runner.accept(0, encode(np.array(7), MsgInfo(7, token=root_token(7)), aux=Aux(members)))
    setup.runner.settle()
    assert list(setup.sent[2][1].keys) == [(7, 0), (8, 0)] and setup.results[2] == "bad 7"


def test_long_calls_run_one_by_one() -> None:
    """A message taken early could have gone to an instance that is idle."""
    setup = Setup()
    setup.worker.seconds = 0.006
    setup.feed(1, 2, 3)
    assert setup.worker.log == ["run 1", "run 2", "run 3"]


def test_calls_that_become_long_stop_overlapping_and_begin_again_when_short(setup: Setup) -> None:
    setup.worker.seconds = 0.1
    setup.feed(1, 2, 3)
    assert setup.worker.log[-1] == "run 3" and not setup.worker.open
    setup.worker.seconds = 0.0001
    setup.feed(*range(4, 30))
    assert "run 4" in setup.worker.log and "begin 29" in setup.worker.log
    setup.runner.settle()
    assert setup.transactions == list(range(1, 30))


def test_a_worker_of_depth_one_never_overlaps(setup: Setup) -> None:
    setup.worker.depth = 1
    setup.feed(1, 2)
    assert setup.worker.log == ["run 1", "run 2"]


def test_each_message_counts_as_one_call_and_overlapping_time_once(setup: Setup) -> None:
    calls, busy = setup.runner.calls, setup.runner.busy
    setup.feed(1, 2, 3)
    assert setup.runner.current is not None and setup.runner.current[0] == 3, "2 has ended, 3 is in flight"
    assert setup.runner.calls == calls + 2
    setup.runner.settle()
    assert setup.runner.calls == calls + 3 and setup.runner.current is None
    assert setup.runner.busy - busy == pytest.approx(3 * setup.worker.seconds)
    assert [trans_id for trans_id, _, _ in setup.calls] == [1, 2, 3]
    assert [end - start for _, start, end in setup.calls] == pytest.approx([setup.worker.seconds] * 3)


def test_the_oldest_call_in_flight_is_the_current_one(setup: Setup) -> None:
    seen: list[object] = []
    setup.worker.on_begin = lambda: seen.append(setup.runner.current and setup.runner.current[0])
    setup.feed(1, 2, 3)
    assert seen == [1, 1, 2]


def test_short_memory_ends_the_calls_in_flight(setup: Setup) -> None:
    """They hold blocks that the next call waits for."""
    setup.feed(1)
    setup.worker.on_begin = setup.runner.settle
    setup.feed(2)
    assert setup.worker.log == ["begin 1", "begin 2", "finish 1"] and setup.results == [2]
    setup.runner.settle()
    assert setup.results == [2, 4]


def test_a_closed_output_ends_the_node_whichever_call_notices() -> None:
    setup = Setup().warm()

    def closed(_output: int, _msg: FlowMsg) -> None:
        raise ClosedError("closed")

    setup.runner._send = closed
    setup.feed(1)
    with pytest.raises(ClosedError):
        setup.feed(2)
    setup.runner.close()


def test_inputs_are_let_go_when_their_call_has_ended(setup: Setup) -> None:
    bodies = []
    gc.disable()
    try:
        for value in (1, 2, 3):
            msg = message(value)
            bodies.append(weakref.ref(msg.body))  # type: ignore[arg-type]
            setup.runner.accept(0, msg)
            del msg
        assert [body() is not None for body in bodies] == [False, False, True]
        setup.runner.settle()
        assert bodies[2]() is None
    finally:
        gc.enable()


def test_a_worker_that_can_run_nothing_any_more_is_told_of(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    assert setup.runner.failure() is None
    gone = ClosedError("the device is gone")
    monkeypatch.setattr(setup.worker, "failure", lambda: gone)
    assert setup.runner.failure() is gone


@dataclass
class Recorder(ModelWorker):
    """Remembers the arrays it was run on."""

    inputs: tuple[TensorSpec, ...]
    fails: bool = False
    outputs = ()
    ran: list[list[tuple[str, tuple[int, ...], float]]] = field(default_factory=list)

    def execute(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Sequence[Array]:
        self.ran.append([(str(array.dtype), array.shape, float(array.sum())) for array in inputs])
        if self.fails:
            raise ValueError("zeros are no input")
        return []

    def close(self) -> None:
        pass


FLOAT, INT = TensorSpec(DataType.FLOAT, (2, 3)), TensorSpec(DataType.INT64, ())


@pytest.mark.parametrize(("inputs", "ran"), [
    ((FLOAT,), [[("float32", (2, 3), 0.0)]]),
    ((FLOAT, INT), [[("float32", (2, 3), 0.0), ("int64", (), 0.0)]]),
    ((TensorSpec(DataType.BOOL, (0, 4)),), [[("bool", (0, 4), 0.0)]]),
    ((FLOAT, TensorSpec(DataType.FLOAT, (-1, 3))), []),
    ((TensorSpec(DataType.FLOAT),), []),
    ((TensorSpec(DataType.UNDEFINED, (2,)),), []),
    ((TensorSpec(DataType.STRING, (2,)),), []),
])
@pytest.mark.parametrize("fails", [False, True])
def test_a_model_is_run_once_on_zeros_where_that_can_be_and_whatever_it_says_of_them(inputs, ran, fails) -> None:
    worker = Recorder(inputs, fails)
    ModelFunc(worker).warm_up()
    assert worker.ran == ran


class Unready(Func):
    """Fails while it is made ready."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(lambda x: x)
        self.error = error

    def init(self, params: FuncParams) -> None:
        raise self.error


@pytest.mark.parametrize("error", [ValueError("bad weights"), SystemExit(3), GeneratorExit(), MemoryError()], ids=repr)
def test_a_node_that_does_not_come_up_inline_is_a_startup_error_with_the_cause(error: BaseException) -> None:
    """BC-098: the same as where it has a process of its own."""
    with pytest.raises(StartupError, match=f"node 'unready'#0: it did not come up: {type(error).__name__}") as caught:
        inline([Node("unready", Unready(error), ["x"])], ["x"], ["unready:0"])
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [UsageError("ours", node="n"), KeyboardInterrupt()], ids=repr)
def test_errors_of_ours_and_ctrl_c_pass_while_a_node_comes_up_inline(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        inline([Node("unready", Unready(error), ["x"])], ["x"], ["unready:0"])
    assert caught.value is error
