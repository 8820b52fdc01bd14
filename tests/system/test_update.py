"""A node exchanged while its graph runs: nothing lost, nothing mixed, and what does not load changes nothing."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

import dflow_core as df
from tests.system.case_support import MODELS, pids, stats, wait_until


@df.pyflow
def spread(x):
    """Three parts of each transaction, so that a version that changes between them would show."""
    for _ in range(3):
        yield x


@df.pyflow(gather=True)
def versions(parts):
    return np.array(sorted({int(part) for part in parts}))


def adds(number: int):
    """A function that adds so much."""

    @df.pyflow
    def worker(x):
        return x * 0 + number

    return worker


@df.pyflow
class Broken:
    def __init__(self):
        raise ValueError("the new version is broken")

    @df.method()
    def work(self, x):
        return x


@df.pyflow
class Closing:
    """Says when it is closed."""

    def __init__(self, path):
        self.path = path

    @df.method()
    def work(self, x):
        return x

    def close(self):
        with open(self.path, "a", encoding="utf-8") as out:
            out.write(f"{os.getpid()}\n")


def test_a_node_is_exchanged_under_load_and_each_transaction_sees_one_version():
    """BC-088: twelve times under load; results are neither lost nor mixed, and a broken version changes nothing."""
    x = df.FlowData("x")
    node = adds(0).fnode(name="worker", instances=2, restarts=20)
    with df.FlowGraph([versions.fnode()(node(spread.fnode()(x)))], {"output": "none"}) as graph:
        seen: list[int] = []
        failures: list[BaseException] = []
        stop = threading.Event()

        def load() -> None:
            try:
                for result in graph.map((np.array(0) for _ in iter(stop.is_set, True)), in_flight=8):
                    assert result.shape == (1,), f"a transaction saw several versions: {result}"
                    seen.append(int(result[0]))
            except BaseException as error:
                failures.append(error)

        caller = threading.Thread(target=load)
        caller.start()
        for version in range(1, 13):
            before = len(seen)
            wait_until(lambda: len(seen) > before + 5 or failures)  # noqa: B023
            old = set(pids(graph))
            first = graph.update("worker", adds(version))
            assert len(old - set(pids(graph))) == 2, "both instances are new processes, the others stay"
            if version % 4 == 0:
                with pytest.raises(df.StartupError, match="the new version is broken"):
                    graph.update(node, Broken.fnode())
            assert graph.running.model.submodels["worker"].name == "worker" and first > 0
        wait_until(lambda: seen[-1:] == [12] or failures)
        stop.set()
        caller.join(60)
        assert not failures and not caller.is_alive()
        assert seen == sorted(seen), "an old version works on nothing after a newer one"
        assert set(seen) == set(range(13))
        assert (len(seen), 0) == (graph.counters.delivered, graph.counters.failed)
        # What comes later starts the new version again, not the old one.
        victim = next(s.pid for s in graph.running.deployment.status() if s.node == "worker")
        os.kill(victim, 9)
        assert {int(graph(np.array(0))[0]) for _ in range(6)} == {12}
        wait_until(lambda: stats(graph).bytes_in_use == 0)


def test_what_cannot_be_exchanged_is_refused_and_the_old_ends_clean(tmp_path):
    x, closed = df.FlowData("x"), tmp_path / "closed"
    node = Closing.fnode(str(closed))
    with df.FlowGraph([node.work(x)], {"output": "none"}) as graph:
        assert graph(1) == 1
        (old,) = pids(graph)

        @df.pyflow
        def two(x, y):
            return x

        with pytest.raises(df.UsageError):
            graph.update(node, two)
        with pytest.raises(df.UsageError, match="there is no node 'wrok'"):
            graph.update("wrok", adds(1))
        assert (graph(2), pids(graph), closed.exists()) == (2, [old], False)
        graph.update(node, adds(5))
        assert (graph(2), closed.read_text().split()) == (5, [str(old)])
        holder = graph.feed({x: np.array(1)})
        graph.suspend()
        with pytest.raises(df.UsageError, match="suspended"):
            graph.update(node, adds(6))
        graph.resume()
        assert graph.fetch() == 5 and not holder.in_flight


def test_a_graph_that_does_not_come_to_rest_keeps_the_old_version():
    @df.pyflow
    def slow(x):
        time.sleep(float(x))
        return x

    x = df.FlowData("x")
    with df.FlowGraph([slow.fnode(name="slow")(x)], {"output": "none"}) as graph:
        graph.feed({x: np.array(1.0)})
        before = pids(graph)
        with pytest.raises(df.WaitTimeoutError, match="not come to rest"):
            graph.update("slow", adds(7), timeout=0.2)
        assert (graph.fetch(), pids(graph)) == (1.0, before)
        assert graph(np.array(0.0)) == 0.0


def test_a_model_is_exchanged_for_another_and_a_broken_file_changes_nothing(tmp_path):
    """BC-088: the file of a model is exchanged while the graph runs."""
    x, y = df.FlowData("x"), df.FlowData("y")
    fixed = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx")
    free = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_dynamic.onnx")
    with np.load(MODELS / "add_float.onnx.npz") as data:
        shape = next(iter(data.values())).shape
    with df.FlowGraph([fixed.fnode(2, 1, "add")(x, y)], {"output": "none"}) as graph:
        ones, more = np.ones(shape, np.float32), np.ones((5, *shape[1:]), np.float32)
        assert np.all(graph(ones, ones) == 2)
        broken = tmp_path / "broken.onnx"
        broken.write_bytes((MODELS / "add_float.onnx").read_bytes()[:40])
        with pytest.raises(df.DflowError):
            graph.update("add", df.GraphProcessPoint(df.Framework.ONNX, broken))
        with pytest.raises(df.DflowError):
            graph(more, more)
        graph.update("add", free)
        assert np.all(graph(more, more) == 2), "the new model takes what the old one refused"


def test_an_inline_node_that_calls_a_graph_is_exchanged_with_it():
    @df.pyflow
    class Calls:
        def __init__(self, model, factor):
            self.model, self.factor = model, factor

        @df.method()
        def work(self, x):
            return self.model(x) * self.factor

    called = df.FlowGraph([adds(3).fnode(name="inner")(df.FlowData("y"))], name="called")
    with df.FlowGraph([Calls.fnode(called, 1).work(df.FlowData("x"))], mode="inline") as graph:
        assert graph(np.array(1)) == 3
        graph.update("Calls", Calls.fnode(called, 10))
        assert graph(np.array(1)) == 30


def test_an_inline_node_is_exchanged_too():
    x = df.FlowData("x")
    with df.FlowGraph([adds(1).fnode(name="worker")(x)], mode="inline") as graph:
        assert graph(0) == 1
        with pytest.raises(df.StartupError, match="ValueError: the new version is broken"):
            graph.update("worker", Broken.fnode())
        assert graph(0) == 1
        graph.update("worker", adds(2))
        assert graph(0) == 2
