"""The call that failed made again, of every kind of Python function: what is recorded of it, and how it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np
import pytest

import dflow_core as df
from dflow_core.errors import UsageError
from dflow_core.message import decode
from dflow_core.recording import Recording, read_recording
from dflow_core.replay import replay_call, replay_transaction
from dflow_core.session import DFlowSession


@pytest.fixture
def session() -> Iterator[DFlowSession]:
    with DFlowSession() as made:
        yield made


@df.pyflow(stream_input="Queue")
def loop(queue: Any) -> Iterator[float]:
    """Answers each; the state of a loop is in its variables."""
    total = 0.0
    while True:
        value = float(queue.get())
        if value < 0:
            raise ValueError(f"negative after {total}")
        total += value
        yield total


@df.pyflow(stream_input="Queue")
def window(queue: Any) -> float:
    """One answer for three."""
    values = [float(queue.get()) for _ in range(3)]
    if min(values) < 0:
        raise ArithmeticError(f"{values}")
    return sum(values)


@df.pyflow(stream_input="Queue")
def pair(left: Any, right: Any) -> Iterator[float]:
    while True:
        a, b = float(left.get()), float(right.get())
        if a < 0:
            raise LookupError(f"{a} {b}")
        yield a + b


@df.pyflow(stream_input="Queue")
def polls(queue: Any) -> Iterator[float]:
    """Fails when nothing comes for a moment."""
    while True:
        value = float(queue.get())
        if value < 0:
            with contextlib.suppress(Empty):
                queue.get(timeout=0.01)
            raise TimeoutError("nothing came")
        yield value


def graph(session: DFlowSession, path: Path, node: Any, inputs: int = 1) -> df.FlowGraph:
    outputs = node(*(df.FlowData(f"x{i}") for i in range(inputs)))
    options = {"record": str(path), "record_good": "100"}
    return df.FlowGraph([outputs], options, mode="inline", session=session)


def recorded(made: df.FlowGraph, path: Path, *values: object) -> Recording:
    """The recording of a graph that was fed with these, one after the other."""
    with made:
        for value in values:
            feed = value if isinstance(value, tuple) else (value,)
            made.feed({f"x{i}": one for i, one in enumerate(feed)})
        for _ in values:
            with contextlib.suppress(df.DflowError):
                made.fetch(timeout=0.5)
    return read_recording(path)


STREAMS: list[tuple[Any, int, Sequence[object], list[tuple[int, float]], str]] = [
    (loop, 1, [1.0, 2.0, -3.0], [(0, -3.0)], "negative after 0.0"),
    (window, 1, [1.0, 2.0, 3.0, 4.0, -5.0, 6.0], [(0, 4.0), (0, -5.0), (0, 6.0)], "[4.0, -5.0, 6.0]"),
    (pair, 2, [(1.0, 2.0), (-1.0, 5.0)], [(0, -1.0), (1, 5.0)], "-1.0 5.0"),
    (polls, 1, [1.0, -2.0], [(0, -2.0)], "nothing came"),
]


@pytest.mark.parametrize(
    ("function", "inputs", "values", "taken", "text"), STREAMS, ids=[one[0].__name__ for one in STREAMS]
)
def test_call_of_a_function_with_queues_is_made_again_with_what_it_had_taken(
    session: DFlowSession, tmp_path: Path, function: Any, inputs: int, values: Sequence[object],
    taken: list[tuple[int, float]], text: str,
) -> None:
    path = tmp_path / "run.dfrec"
    recording = recorded(graph(session, path, function.fnode("node"), inputs), path, *values)
    failed = recording.transaction()
    call = recording.failed_call(failed)
    assert [(port, float(decode(msg))) for port, msg in zip(call.ports, call.inputs)] == taken  # type: ignore[arg-type]
    done = replay_call(session, recording, failed)
    assert done.verdict == "the same error" and done.error is not None
    assert text in str(done.cause), "the object that was raised, for a debugger"
    assert failed.trans_id in call.trans_ids


def test_batch_of_a_window_is_fed_again_whole(session: DFlowSession, tmp_path: Path) -> None:
    """Of a window, all transactions are needed that lay in it."""
    path = tmp_path / "run.dfrec"
    recording = recorded(graph(session, path, window.fnode("node")), path, 1.0, -2.0, 3.0)
    failed = recording.transaction()
    assert failed.end.together == (1, 2, 3)
    done = replay_transaction(session, recording, failed)
    assert done.verdict == "the same error" and "[1.0, -2.0, 3.0]" in str(done.cause)


def test_function_that_does_not_fail_this_time_ends_with_what_it_sends(session: DFlowSession, tmp_path: Path) -> None:
    marker, path = tmp_path / "mended", tmp_path / "run.dfrec"

    @df.pyflow(stream_input="Queue")
    def moody(queue: Any) -> Iterator[float]:
        while True:
            value = float(queue.get())
            if not marker.exists():
                raise OSError("not yet")
            yield value * 2

    recording = recorded(graph(session, path, moody.fnode("node")), path, 4.0)
    marker.touch()
    done = replay_call(session, recording, recording.transaction())
    assert done.verdict == "no error this time" and [decode(msg) for _, msg in done.outputs] == [8.0]


class ByHand:
    """A hand-written function with queues: it gets and sends messages, which name what they answer."""

    @df.proc_wrapper("i0,o0,stream_input")
    def work(self, context: Any, queues: Sequence[Any]) -> int:
        waiting = []
        while True:
            code, msg = queues[0].dequeue(20_000)
            if code:
                return 0
            waiting.append(msg)
            if float(msg.get_tensor()) < 0:
                raise RuntimeError(f"by hand, {len(waiting)} waiting")
            if len(waiting) == 3:
                context.set_output(0, waiting.pop(0))


def test_call_of_a_hand_written_function_has_what_it_owes_whatever_else_it_has_answered(
    session: DFlowSession, tmp_path: Path
) -> None:
    path = tmp_path / "run.dfrec"
    node = df.FlowNode(1, 1, name="node")
    node.add_process_point(df.FuncProcessPoint(py_func=ByHand))
    recording = recorded(graph(session, path, node), path, *map(np.array, (1.0, 2.0, 3.0, 4.0, -5.0)))
    failed = recording.transaction()
    call = recording.failed_call(failed)
    assert [float(decode(msg)) for msg in call.inputs] == [3.0, 4.0, -5.0]  # type: ignore[arg-type]
    done = replay_call(session, recording, failed)
    assert done.verdict == "the same error" and str(done.cause) == "by hand, 3 waiting"


@df.pyflow
class Both:
    """Two functions of one object; the second fails."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @df.method()
    def good(self, x: np.ndarray) -> np.ndarray:
        return x * self.factor

    @df.method()
    def bad(self, y: np.ndarray) -> np.ndarray:
        if y.min() < 0:
            raise ValueError(f"bad with {self.factor}")
        return y


def test_call_of_one_of_several_functions_is_made_again_with_its_object(session: DFlowSession, tmp_path: Path) -> None:
    path = tmp_path / "run.dfrec"
    node = Both.fnode(3.0)
    outputs = [node.good(df.FlowData("x")), node.bad(df.FlowData("y"))]
    made = df.FlowGraph(outputs, {"record": str(path)}, mode="inline", session=session)
    with made, pytest.raises(df.NodeError):
        made(np.ones(2), -np.ones(2))
    recording = read_recording(path)
    call = recording.failed_call(recording.transaction())
    assert recording.model().submodels[call.node].functions[call.function].name == "bad" and not call.ports
    done = replay_call(session, recording, recording.transaction())
    assert done.verdict == "the same error" and str(done.cause) == "bad with 3.0"


@df.pyflow
def first(x: np.ndarray) -> np.ndarray:
    raise ValueError("first")


@df.pyflow
def second(x: np.ndarray) -> np.ndarray:
    raise KeyError("second")


def test_node_can_be_named_where_several_failed(session: DFlowSession, tmp_path: Path) -> None:
    path = tmp_path / "run.dfrec"
    x = df.FlowData("x")
    outputs = [first.fnode("a")(x), second.fnode("b")(x)]
    with df.FlowGraph(outputs, {"record": str(path)}, mode="inline", session=session) as made:
        made.feed({x: np.ones(1)})
        with pytest.raises(df.NodeError):
            made.fetch()
    recording = read_recording(path)
    failed = recording.transaction()
    assert {call.node for call in recording.calls(failed)} == {"a", "b"}
    for node, kind in (("a", ValueError), ("b", KeyError)):
        done = replay_call(session, recording, failed, node=node)
        assert (done.node, done.verdict) == (node, "the same error") and isinstance(done.cause, kind)
    with pytest.raises(UsageError, match="no failed call of node 'c'") as caught:
        replay_call(session, recording, failed, node="c")
    assert caught.value.hint == "there are those of a, b"


def test_an_exchanged_function_with_queues_is_refused_before_anything_changes(
    session: DFlowSession, tmp_path: Path
) -> None:
    """Inline only: there its thread cannot be given away. The recording says nothing of it."""
    path = tmp_path / "run.dfrec"
    node = loop.fnode("node")
    with graph(session, path, node) as made, pytest.raises(UsageError, match="takes a stream"):
        made.update(node, loop)
    assert read_recording(path).updates == ()


