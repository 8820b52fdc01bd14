"""Recordings of graphs whose nodes live in processes: errors, crashes, and an application that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.message import decode
from dflow_core.recording import read_recording
from dflow_core.replay import replay_call, replay_transaction
from dflow_core.session import DFlowSession


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
