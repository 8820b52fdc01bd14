"""Models compute in long turns, in threads that are there for them alone."""

from __future__ import annotations

import os
import threading

import pytest

import dflow_pne_cpu.turns as turns


def policy_after(work):
    """Scheduling policy of a thread, and of one that it starts, after some work in it."""
    found = []

    def run():
        work()
        found.append(os.sched_getscheduler(0))
        inner = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
        inner.start()
        inner.join()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found


@pytest.mark.parametrize("machine", ["", "riscv64"])
def test_a_thread_and_those_it_starts_take_long_turns(monkeypatch, machine):
    if machine:
        monkeypatch.setattr(turns.platform, "machine", lambda: machine)
    before = os.sched_getscheduler(0)
    assert policy_after(turns.take_long_turns) == [os.SCHED_BATCH] * 2
    assert os.sched_getscheduler(0) == before


def test_where_it_is_forbidden_nothing_changes(monkeypatch):
    def forbidden(*_):
        raise PermissionError

    monkeypatch.setattr(turns.platform, "machine", lambda: "riscv64")
    monkeypatch.setattr(turns.os, "sched_setscheduler", forbidden)
    assert policy_after(turns.take_long_turns) == [os.sched_getscheduler(0)] * 2


def test_models_of_a_graph_take_long_turns_and_the_caller_does_not(models):
    import dflow_core as df

    before = os.sched_getscheduler(0)
    node = df.GraphProcessPoint(df.Framework.ONNX, models / "add_float.onnx").fnode(2, 1)
    for mode in ("inline", "process"):
        with df.FlowGraph([node(df.FlowData("a"), df.FlowData("b"))], {"output": "none"}, mode=mode) as graph:
            if mode == "process":
                pid = graph.running.deployment.status()[0].pid
                policies = {os.sched_getscheduler(int(task)) for task in os.listdir(f"/proc/{pid}/task")}
                assert os.SCHED_BATCH in policies
            assert os.sched_getscheduler(0) == before
