"""What follows when an executor dies, by policy: started again, or the other instances go on, and the graph says so."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import dflow_core as df
from tests.system.case_support import wait_until


@df.pyflow
def work(x):
    return x + 1


@df.pyflow
def left(x):
    return x


@df.pyflow
def plus(a, b):
    return a + b


def kill(graph: df.FlowGraph, node: str) -> None:
    found = next(s for s in graph.running.deployment.status() if s.node == node and s.pid and s.state == "running")
    os.kill(found.pid, signal.SIGKILL)
    wait_until(lambda: all(s.pid != found.pid for s in graph.running.deployment.status()))


def states(graph: df.FlowGraph, node: str) -> list[str]:
    return sorted(s.state for s in graph.running.deployment.status() if s.node == node)


@pytest.mark.parametrize("policy", ["degrade", "never"])
def test_survivors_go_on_without_a_dead_instance_and_the_graph_says_so(policy):
    """BC-061: others are not affected, also where each instance has a queue of its own."""
    x = df.FlowData("x")
    half = left.fnode()(x)
    node = plus.fnode(name="plus", instances=3, when_lost=policy)
    with df.FlowGraph([node(half, work.fnode()(x))], {"output": "none"}) as graph:
        assert graph.stats().status == "complete"
        assert [int(r) for r in graph.map([np.array(n) for n in range(12)])] == [2 * n + 1 for n in range(12)]
        kill(graph, "plus")
        wait_until(lambda: states(graph, "plus") == ["failed", "running", "running"])
        assert graph.stats().status.startswith("degraded: without plus#")
        assert [int(r) for r in graph.map([np.array(n) for n in range(30)])] == [2 * n + 1 for n in range(30)]
        kill(graph, "plus")
        kill(graph, "plus")
        if policy == "never":
            with pytest.raises(df.InstanceLostError):
                graph(np.array(1))
        else:
            assert int(graph(np.array(1), timeout=30)) == 3, "the last one is started again"


def test_a_budget_that_is_over_degrades_and_always_has_none():
    x = df.FlowData("x")
    with df.FlowGraph([work.fnode(name="work", instances=2, restarts=0)(x)], {"output": "none"}) as graph:
        kill(graph, "work")
        wait_until(lambda: states(graph, "work") == ["failed", "running"])
        assert [int(r) for r in graph.map([np.array(n) for n in range(20)])] == list(range(1, 21))
    with df.FlowGraph([work.fnode(name="work", restarts=0, when_lost="always")(x)], {"output": "none"}) as graph:
        for _ in range(2):
            kill(graph, "work")
            assert int(graph(np.array(1), timeout=30)) == 2


def test_a_policy_that_is_none_is_refused():
    with pytest.raises(df.OptionError, match="when_lost"):
        work.fnode(when_lost="sometimes")
