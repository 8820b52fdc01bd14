"""Recordings of graphs whose nodes live in processes: errors, crashes, and an application that is killed."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dflow_core as df
from dflow_core.message import decode
from dflow_core.recording import read_recording
from dflow_core.replay import replay_call, replay_transaction
from dflow_core.session import DFlowSession
from tests.system.case_support import MODELS, wait_until


@df.pyflow
def half(value: np.ndarray) -> np.ndarray:
    return value / 2


@df.pyflow
def add(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    if left.sum() < 0:
        raise ValueError("negative")
    if left.sum() > 1000:
        os._exit(3)
    return left + right


@df.pyflow
def pick(rows: np.ndarray) -> np.ndarray:
    if rows.min() < 0:
        raise ValueError(f"bad row among {rows.shape[0]}")
    return rows


def joined(session: DFlowSession, path: Path) -> df.FlowGraph:
    x, y = df.FlowData("x"), df.FlowData("y")
    outputs = add.fnode("add")(half.fnode("half")(x), y)
    return df.FlowGraph([outputs], {"record": str(path)}, name="joined", session=session)


def batched(session: DFlowSession, path: Path) -> df.FlowGraph:
    point = df.FuncProcessPoint(py_func=pick)
    node = df.FlowNode(1, 1, name="pick")
    node.add_process_point(point)
    node.map_input(0, point, 0, [df.CountBatch(batch_size=2)])
    return df.FlowGraph([node(df.FlowData("x"))], {"record": str(path)}, name="batched", session=session)


def test_error_and_crash_in_processes_are_recorded_and_replayed(tmp_path: Path) -> None:
    """One deployed graph: the failing call's messages came from its process; the crash replays what was fed."""
    path, one = tmp_path / "run.dfrec", np.ones(3)
    with DFlowSession() as session:
        with joined(session, path) as graph:
            items = [(one * n, one) for n in (1, -4, 2, 5000, 3)]
            found = list(graph.map(items, in_flight=1, errors="return", copy=True))
            stats = graph.stats()
            (queue,) = [edge for edge in stats.edges if "->" not in edge.name]
            assert (queue.sent, queue.delivered, queue.level) == (1, 1, 0)
        assert [type(result).__name__ for result in found] == [
            "ndarray", "NodeError", "ndarray", "InstanceLostError", "ndarray",
        ]
        recording = read_recording(path)
        assert [t.end.how for t in recording.transactions.values()] == ["result", "error", "result", "lost", "result"]
        failed, lost = recording.transaction(), recording.transaction(4)
        (call,) = recording.calls(failed)
        assert (call.node, call.instance, call.error.error_type) == ("add", 0, "ValueError")
        assert [decode(msg).tolist() for msg in call.inputs] == [[-2.0] * 3, [1.0] * 3]  # type: ignore[attr-defined]
        assert replay_call(session, recording, failed).verdict == "the same error"
        assert isinstance(replay_transaction(session, recording, failed).cause, ValueError)
        good = replay_transaction(session, recording, recording.transaction(5))
        assert good.verdict == "the same results", "the process that followed on the crash gave it"
        assert recording.calls(lost) == []
        again = replay_transaction(session, recording, lost)
        assert isinstance(again.error, df.InstanceLostError) and again.verdict == "the same error"
        with pytest.raises(df.UsageError, match="what the failed node was given is not in"):
            replay_call(session, recording, lost)


def test_batch_that_failed_in_a_process_is_replayed_as_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "run.dfrec"
    with DFlowSession() as session:
        with batched(session, path) as graph:
            found = list(graph.map([np.array([n]) for n in (1, 2, -3, 4)], errors="return", copy=True))
        assert [type(result).__name__ for result in found] == ["ndarray", "NodeError", "NodeError"]
        recording = read_recording(path)
        assert recording.failed == (3, 4) and recording.transaction(4).end.together == (3, 4)
        for done in (replay_call, replay_transaction):
            assert str(done(session, recording, recording.transaction(4)).cause) == "bad row among 2"


def test_recording_of_an_application_that_is_killed_holds_what_was_under_way(tmp_path: Path) -> None:
    path = tmp_path / "run.dfrec"
    (tmp_path / "program.py").write_text(textwrap.dedent(
        f"""
        import time

        import dflow_core as df

        @df.pyflow
        def slow(value):
            if value == 2:
                print("working", flush=True)
                time.sleep(300)
            return value

        if __name__ == "__main__":
            node = slow.fnode("slow")
            with df.FlowGraph([node(df.FlowData("x"))], {{"record": {str(path)!r}, "output": "stderr"}}) as graph:
                graph(1)
                graph(2)
        """
    ))
    with subprocess.Popen([sys.executable, str(tmp_path / "program.py")], stderr=subprocess.PIPE) as program:
        assert program.stderr is not None
        for line in program.stderr:
            if b"working" in line:
                break
        os.kill(program.pid, signal.SIGKILL)
        program.wait(10)
    recording = read_recording(path)
    assert (recording.torn, recording.left_out) == (0, None)
    assert [t.end.how for t in recording.transactions.values()] == ["result", "open"]
    (fed,) = recording.fed(recording.transaction())
    assert decode(fed[0]) == 2


@df.pyflow
def strict(value: np.ndarray) -> np.ndarray:
    if value.min() < 0:
        raise OverflowError("strict")
    return value * 3


def test_transactions_of_a_graph_that_was_updated_are_replayed_with_their_version(tmp_path: Path) -> None:
    """Fed by another thread all the time: none is recorded with a version that did not serve it."""
    path = tmp_path / "run.dfrec"
    with DFlowSession() as session:
        node = half.fnode("work")
        options = {"record": str(path), "record_good": "1000000", "output": "none"}
        with df.FlowGraph([node(df.FlowData("x"))], options, name="updated", session=session) as graph:
            ends: list[object] = []
            stop = threading.Event()

            def load() -> None:
                numbers = itertools.takewhile(lambda _: not stop.is_set(), itertools.cycle((2.0, -2.0)))
                ends.extend(graph.map((np.array([n]) for n in numbers), in_flight=6, errors="return", copy=True))

            caller = threading.Thread(target=load)
            caller.start()
            wait_until(lambda: graph.counters.delivered > 20)
            graph.update(node, strict)
            before = graph.counters.failed
            wait_until(lambda: graph.counters.failed > before + 20)
            stop.set()
            caller.join(60)
            assert not caller.is_alive()
        recording = read_recording(path)
        assert [update.nodes for update in recording.updates] == [{"work": 2}]
        versions = [recording.versions_of(one).get("work", 1) for one in recording.transactions.values()]
        assert set(versions) == {1, 2} and versions == sorted(versions)
        for one in recording.transactions.values():
            assert (one.updates == 1) == (one.trans_id >= recording.updates[0].first)
            assert one.end.how == ("error" if one.end.error else "result")
            assert not (one.failed and not one.updates), "the first version takes everything"
        last = list(recording.transactions.values())[versions.count(1) - 1]
        for one in (last, recording.transaction()):
            verdict = replay_transaction(session, recording, one).verdict
            assert verdict == ("the same error" if one.failed else "the same results")
        assert replay_call(session, recording, recording.transaction()).verdict == "the same error"


def test_recorder_that_is_killed_in_the_middle_of_big_records_leaves_the_whole_ones(tmp_path: Path) -> None:
    """Killed three times while it writes nothing but records of some megabytes; each time the file can be read."""
    (tmp_path / "program.py").write_text(textwrap.dedent(
        """
        import sys

        import numpy as np

        import dflow_core as df

        @df.pyflow
        def same(value):
            return value

        with df.FlowGraph([same.fnode()(df.FlowData("x"))], {"record": sys.argv[1], "record_good": "3"},
                          mode="inline") as graph:
            for number in range(100_000):
                graph(np.full(400_000, number))
        """
    ))
    for number in range(3):
        path = tmp_path / f"run{number}.dfrec"
        with subprocess.Popen([sys.executable, str(tmp_path / "program.py"), str(path)]) as program:
            wait_until(lambda path=path: path.exists() and path.stat().st_size > 20_000_000)
            os.kill(program.pid, signal.SIGKILL)
            program.wait(10)
        recording = read_recording(path)
        assert recording.left_out is None and len(recording.transactions) >= 3
        last = max(recording.transactions)
        for one in recording.transactions.values():
            assert one.end.how == "result" or one.trans_id == last
            (fed,) = recording.fed(one)
            assert np.unique(decode(fed[0])).tolist() == [one.trans_id - 1]  # type: ignore[call-overload]


@df.pyflow(stream_input="Queue")
def paired(left: Any, right: Any) -> Iterator[np.ndarray]:
    while True:
        a, b = left.get(), right.get()
        if a.min() < 0:
            raise LookupError(f"{a.tolist()} {b.tolist()}")
        yield a + b


@df.pyflow
class Two:
    def __init__(self, limit: float) -> None:
        self.limit = limit

    @df.method()
    def low(self, x: np.ndarray) -> np.ndarray:
        return x

    @df.method()
    def high(self, y: np.ndarray) -> np.ndarray:
        if y.max() > self.limit:
            raise ValueError(f"above {self.limit}")
        return y


def test_failed_calls_of_every_kind_of_python_node_come_from_their_processes(tmp_path: Path) -> None:
    """Functions with queues, several functions of one object: their messages travel, and the call is made here."""
    x, y = df.FlowData("x"), df.FlowData("y")
    made = {"paired": [paired.fnode("paired")(half.fnode("half")(x), y)]}
    node = Two.fnode(5.0)
    made["Two"] = [node.low(x), node.high(y)]
    items = {"paired": (np.full(2, -4.0), np.full(2, 3.0)), "Two": (np.zeros(2), np.full(2, 7.0))}
    expected = {"paired": "[-2.0, -2.0] [3.0, 3.0]", "Two": "above 5.0"}
    with DFlowSession() as session:
        for name, outputs in made.items():
            path = tmp_path / f"{name}.dfrec"
            with df.FlowGraph(outputs, {"record": str(path), "output": "none"}, name=name, session=session) as graph:
                graph.feed(dict(zip(("x", "y"), items[name])))
                with pytest.raises(df.NodeError):
                    graph.fetch(timeout=30)
            recording = read_recording(path)
            done = replay_call(session, recording, recording.transaction(), node=name)
            assert (done.node, done.verdict, str(done.cause)) == (name, "the same error", expected[name])


def test_failed_call_of_a_model_is_made_again_by_the_model_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.dfrec"
    point = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx")
    with np.load(MODELS / "add_float.onnx.npz") as data:
        shape = next(iter(data.values())).shape
    good, bad = np.ones(shape, np.float32), np.ones((7, 9), np.float32)
    with DFlowSession() as session:
        outputs = [point.fnode(2, 1, "add")(half.fnode("a")(df.FlowData("x")), half.fnode("b")(df.FlowData("y")))]
        with df.FlowGraph(outputs, {"record": str(path), "output": "none"}, session=session) as graph:
            graph(good, good)
            with pytest.raises(df.NodeError):
                graph(bad, bad)
        recording = read_recording(path)
        call = recording.failed_call(recording.transaction())
        assert call.node == "add" and decode(call.inputs[0]).shape == (7, 9)  # type: ignore[attr-defined]
        done = replay_call(session, recording, recording.transaction())
        assert (done.node, done.verdict) == ("add", "the same error")
