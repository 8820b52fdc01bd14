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


@df.pyflow
def leaves(x):
    if int(x) < 0:
        os._exit(0)
    return x


def test_a_process_that_ends_with_code_0_before_its_input_does_is_lost_like_any_other():
    """It is started again within its own window, then given up; counters and reason say so."""
    x = df.FlowData("x")
    node = leaves.fnode(name="leaves", restarts=2, restart_window=3600, restart_delay=0, restart_delay_max=0)
    with df.FlowGraph([node(x)], {"output": "none"}) as graph:
        for _ in range(2):
            with pytest.raises(df.InstanceLostError, match="ended by itself with exit code 0"):
                graph(np.array(-1))
            assert int(graph(np.array(5), timeout=30)) == 5
        (stats,) = graph.stats().nodes
        assert (stats.restarts, stats.given_up) == (2, None)
        assert graph.stats().notes == ("leaves#0: started again 2 times",)
        with pytest.raises(df.InstanceLostError):
            graph(np.array(-1))
        with pytest.raises(df.InstanceLostError, match="2 times within 3600 s, and `restarts=2` allows no") as error:
            graph(np.array(5))
        assert "restart_window" in str(error.value.hint)
        (stats,) = graph.stats().nodes
        assert stats.state == "failed" and stats.given_up is not None
        ago, why = stats.given_up
        assert ago >= 0 and "exit code 0; it was started again 2 times within 3600 s" in why


@pytest.mark.parametrize(("policy", "why"), [
    ("never", "it is not started again, because of `when_lost='never'`"),
    ("degrade", "`when_lost='degrade'` leaves its work to other instances"),
])
def test_the_graph_says_why_an_instance_was_given_up(policy, why):
    x = df.FlowData("x")
    with df.FlowGraph([work.fnode(name="work", instances=2, when_lost=policy)(x)], {"output": "none"}) as graph:
        kill(graph, "work")
        wait_until(lambda: states(graph, "work") == ["failed", "running"])
        (note,) = graph.stats().notes
        assert note.startswith("work#") and "never started again, given up" in note and note.endswith(why)
        assert graph.running.answer("ps")["notes"] == graph.stats().notes


def test_a_policy_that_is_none_is_refused():
    with pytest.raises(df.OptionError, match="when_lost"):
        work.fnode(when_lost="sometimes")
