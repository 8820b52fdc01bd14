"""What goes wrong in user code and executors: what the caller is told, and that the rest goes on."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

import dflow_core as df
from dflow_core.testing.waiting import wait_until


def one_node(func: object, **options: object) -> tuple[df.FlowData, df.FlowGraph]:
    """A graph of one decorated function, ended quickly even if that hangs."""
    x = df.FlowData("x")
    node = func.fnode(**options)  # type: ignore[attr-defined]
    return x, df.FlowGraph([node(x)], {"stop_timeout": "1"})


def executor_pids(graph: df.FlowGraph) -> list[int]:
    """Process ids of the executors that run."""
    return [s.pid for s in graph.running.deployment.status() if s.pid]  # type: ignore[union-attr]


@df.pyflow
def picky(x):
    """Does what it is told."""
    import ctypes
    import os
    import sys
    import time

    if x == "raise":
        raise ValueError("bad pixel 7")
    if x == "memory":
        raise MemoryError("too much")
    if x == "exit":
        sys.exit(3)
    if x == "os._exit":
        print("last words")
        os._exit(9)
    if x == "segfault":
        ctypes.string_at(0)
    if x == "hang":
        time.sleep(3600)
    return x


@pytest.mark.parametrize("mode", ["process", "inline"])
def test_exception_reaches_the_caller_with_everything_and_the_node_goes_on(mode: str) -> None:
    """BC-057."""
    x = df.FlowData("x")

    @df.pyflow
    def bad(array):
        return array[99]

    with df.FlowGraph([bad.fnode("cutter")(x)], mode=mode) as graph:
        with pytest.raises(df.NodeError) as caught:
            graph(np.zeros((2, 3), np.float32))
        error = caught.value
        assert (error.node, error.instance, error.trans_id) == ("cutter", 0, 1)
        assert error.error_type == "IndexError" and error.input_shapes == ("float[2, 3]",)
        assert "return array[99]" in error.remote_traceback and "out of bounds" in str(error)
        if mode == "inline":
            assert isinstance(error.__cause__, IndexError)
        assert graph(np.arange(100))[()] == 99  # type: ignore[index]


def test_every_kind_of_exception_ends_only_its_own_transaction() -> None:
    x, graph = one_node(picky)
    with graph:
        items = ["a", "raise", "b", "memory", "exit", "c"]
        results = list(graph.map(items, errors="return", timeout=30))
        kinds = [r if isinstance(r, str) else r.error_type for r in results]  # type: ignore[attr-defined]
        assert kinds == ["a", "ValueError", "b", "MemoryError", "SystemExit", "c"]
        c = graph.counters
        assert (c.fed, c.delivered, c.failed, c.dropped) == (6, 3, 3, 0)


@pytest.mark.parametrize(("result", "said"), [
    ((1,), "1 values"), ((1, 2, 3), "3 values"), (5, "a int"), (None, "a NoneType"),
])
def test_wrong_number_of_results_is_an_error_that_says_expected_and_got(result: object, said: str) -> None:
    """BC-036."""
    x = df.FlowData("x")

    @df.pyflow(num_returns=2)
    def pair(_):
        return result

    node = pair.fnode()
    with df.FlowGraph(list(node(x)), mode="inline") as graph, pytest.raises(df.NodeError, match=said) as caught:  # type: ignore[arg-type]
        graph(0)
    assert "expected a tuple of 2" in str(caught.value)


@pytest.mark.parametrize(("how", "said"), [("os._exit", "9"), ("segfault", "signal 11")])
def test_dead_executor_loses_only_its_transactions_and_comes_back(how: str, said: str) -> None:
    """BC-057, BC-061: exit code or signal and the last output reach the caller; the graph works on."""
    x, graph = one_node(picky)
    with graph:
        assert graph("before", timeout=30) == "before"
        with pytest.raises(df.InstanceLostError) as caught:
            graph(how, timeout=30)
        assert said in str(caught.value) and caught.value.node == "picky"
        expected = "last words" if how == "os._exit" else "Segmentation fault"
        assert expected in caught.value.output
        assert graph("after", timeout=30) == "after"


def test_killed_executor_is_noticed_within_a_second_and_replaced() -> None:
    x, graph = one_node(picky)
    with graph:
        graph.feed({x: "hang"})
        (pid,) = executor_pids(graph)
        wait_until(lambda: graph.running.deployment.group.stats().queues[0].delivered == 1)  # type: ignore[union-attr]
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        with pytest.raises(df.InstanceLostError, match="signal 9"):
            graph.fetch(timeout=30)
        assert time.monotonic() - killed < 5
        assert graph("after", timeout=30) == "after"
        assert executor_pids(graph) != [pid]


def test_other_instances_do_not_notice_that_one_died() -> None:
    """BC-061."""
    x = df.FlowData("x")

    @df.pyflow(instances=2)
    def pid_of(n):
        import os
        import time

        time.sleep(0.005)
        return os.getpid()

    with df.FlowGraph([pid_of.fnode()(x)]) as graph:
        victims = executor_pids(graph)
        results = []
        for n, result in enumerate(graph.map(range(200), errors="return", in_flight=8, timeout=30)):
            results.append(result)
            if n == 20:
                os.kill(victims[0], signal.SIGKILL)
        lost = [r for r in results if isinstance(r, df.InstanceLostError)]
        assert len(results) == 200 and len(lost) <= 8
        c = graph.counters
        assert c.fed == 200 == c.delivered + c.failed


def test_join_does_not_wait_for_a_part_lost_with_a_dead_executor() -> None:
    a, b = df.FlowData("a"), df.FlowData("b")

    @df.pyflow
    def join(left, right):
        if left == "die":
            import os

            os._exit(1)
        return (left, right)

    with df.FlowGraph([join.fnode()(a, b)]) as graph:
        with pytest.raises(df.InstanceLostError):
            graph("die", 1, timeout=30)
        graph.feed({a: "half"}, partial=True)
        wait_until(lambda: graph.running.deployment.group.stats().queues[0].level == 0)  # type: ignore[union-attr]
        os.kill(executor_pids(graph)[0], signal.SIGKILL)
        with pytest.raises(df.InstanceLostError):
            graph.fetch(timeout=30)
        graph.feed({b: "late half"}, partial=True)
        assert graph(3, 4, timeout=30) == (3, 4)


def test_executor_that_keeps_dying_fails_the_graph_with_the_reason() -> None:
    """BC-098: no endless restarts."""
    x, graph = one_node(picky, restarts=2)
    with graph:
        for _ in range(3):
            with pytest.raises(df.PeerGoneError):
                graph("os._exit", timeout=30)
        with pytest.raises(df.DflowError, match="picky"):
            for _ in range(50):
                graph("x", timeout=30)


def test_constructor_that_raises_is_reported_to_whoever_starts_the_graph() -> None:
    """BC-098."""
    @df.pyflow
    class Broken:
        def __init__(self):
            raise RuntimeError("no weights here")

        @df.method()
        def run(self, x):
            return x

    x = df.FlowData("x")
    with pytest.raises(df.StartupError, match="no weights here") as caught, df.FlowGraph([Broken.fnode().run(x)]):
        pass
    assert "RuntimeError" in str(caught.value)


def test_call_that_takes_too_long_is_ended_if_the_node_says_so() -> None:
    x, graph = one_node(picky, call_timeout=0.3)
    with graph:
        with pytest.raises(df.InstanceLostError, match="limit"):
            graph("hang", timeout=30)
        assert graph("after", timeout=30) == "after"


def test_waiting_in_vain_names_the_node_and_shows_its_stack() -> None:
    """BC-063."""
    x, graph = one_node(picky)
    with graph:
        graph.feed({x: "hang"})
        wait_until(lambda: graph.running.deployment.group.stats().queues[0].level == 0)  # type: ignore[union-attr]
        with pytest.raises(df.WaitTimeoutError) as caught:
            graph.fetch(timeout=0.5)
        text = str(caught.value)
        assert ("picky#0" in text and "time.sleep" in text) or "in picky" in text


def test_graph_with_a_hanging_node_closes_within_its_limit() -> None:
    """BC-024, BC-064."""
    x = df.FlowData("x")
    graph = df.FlowGraph([picky.fnode()(x)], {"stop_timeout": "1"})
    with graph:
        for _ in range(5):
            graph.feed({x: "hang"})
        pids = executor_pids(graph)
        began = time.monotonic()
    assert time.monotonic() - began < 6
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_full_queue_with_a_limit_is_an_error_and_nothing_is_half_fed() -> None:
    x = df.FlowData("x")
    graph = df.FlowGraph([picky.fnode()(x)], {"queue_depth": "2", "stop_timeout": "0.5"})
    with graph:
        fed = 0
        with pytest.raises(df.QueueFullError, match="'x'|input x"):
            for _ in range(10):
                graph.feed({x: "hang"}, timeout=0.3)
                fed += 1
        assert 2 <= fed <= 4 and graph.counters.fed == fed


def test_printing_a_lot_never_blocks_a_node(capfd: pytest.CaptureFixture[str]) -> None:
    """BC-062."""
    x = df.FlowData("x")

    @df.pyflow
    def chatty(n):
        print("schön " * 20_000)
        return n

    with df.FlowGraph([chatty.fnode()(x)]) as graph:
        assert list(graph.map(range(10), timeout=30)) == list(range(10))
    err = capfd.readouterr().err
    assert "[chatty#0]" in err and "schön" in err


def test_on_error_stop_ends_the_graph() -> None:
    x, graph = one_node(picky, on_error="stop")
    with graph:
        with pytest.raises(df.DflowError, match="bad pixel 7"):
            graph("raise", timeout=30)
        with pytest.raises(df.DflowError):
            for _ in range(50):
                graph("x", timeout=30)


def test_killed_application_leaves_no_process_behind(tmp_path: object) -> None:
    """BC-001, BC-014."""
    import subprocess
    import sys

    script = (
        "import sys, time, dflow_core as df\n"
        "x = df.FlowData('x')\n"
        "@df.pyflow\n"
        "def slow(v):\n    time.sleep(3600)\n"
        "with df.FlowGraph([slow.fnode(instances=2)(x)]) as g:\n"
        "    g.feed({x: 1})\n"
        "    print(*[s.pid for s in g.running.deployment.status()], flush=True)\n"
        "    time.sleep(3600)\n"
    )
    app = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert app.stdout is not None
    pids = [int(p) for p in app.stdout.readline().split()]
    app.kill()
    app.wait()
    app.stdout.close()

    def is_gone(pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    assert len(pids) == 2
    wait_until(lambda: all(is_gone(pid) for pid in pids))
