"""Cases of area F: threads, forks, names and wiring, through whole programs."""

from __future__ import annotations

import asyncio
import os
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dflow_core as df
from tests.system.case_support import MODELS, chain, check_idle, run_program


@df.pyflow
def add_one(x):
    return x + 1


@df.pyflow
def pair(a, b):
    return a, b


# ------------------------------------------------------------------------------- BC-090: forks

HOST = """
    import multiprocessing, os, sys, threading, time
    import numpy as np
    import onnxruntime
    import dflow_core as df

    @df.pyflow
    def add_one(x):
        return x + 1

    def graph():
        model = df.GraphProcessPoint(df.Framework.ONNX, sys.argv[1] + "/add_float.onnx").fnode(2, 1)
        x = df.FlowData("x")
        return df.FlowGraph([add_one.fnode()(model(x, x))])

    def use(n):
        with graph() as own:
            return own(np.full(3, n, np.float32), timeout=30).tolist()

    def try_to_use(n):
        try:
            return use(n)
        except df.ClosedError as error:
            return str(error)

    if __name__ == "__main__":
        stop = threading.Event()
        threads = [threading.Thread(target=stop.wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        session = onnxruntime.InferenceSession(sys.argv[1] + "/add_float.onnx", providers=["CPUExecutionProvider"])
        fork = multiprocessing.get_context("fork")
        with fork.Pool(2) as pool:
            print("before:", pool.map_async(use, [1, 2]).get(60))
        print("own:", use(3))
        with graph() as running:
            print("again:", running(np.zeros(3, np.float32), timeout=30).tolist())
            with fork.Pool(2) as pool:
                for text in pool.map_async(try_to_use, [1, 2]).get(60):
                    print("in a child:", "forked after dflow" in text)
            pid = os.fork()
            if pid == 0:
                try:
                    running(np.zeros(3, np.float32), timeout=5)
                except df.ClosedError:
                    os._exit(5)
                os._exit(6)
            print("child:", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            print("still:", running(np.ones(3, np.float32), timeout=30).tolist())
        spawn = multiprocessing.get_context("spawn")
        with spawn.Pool(1) as pool:
            print("spawned:", pool.map_async(use, [7]).get(60))
        stop.set()
"""


@pytest.mark.timeout(120)
def test_hosts_with_threads_that_fork_before_and_after_use_never_hang(tmp_path: object) -> None:
    """BC-090: threads and an ONNX session first; multiprocessing before, beside and after a running graph, os.fork."""
    pytest.importorskip("onnxruntime")
    script = f"{tmp_path}/host.py"
    with open(script, "w") as file:
        file.write(textwrap.dedent(HOST))
    call = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, {script!r}, {str(MODELS)!r}]))"
    done = run_program(call, limit=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "before: [[3.0, 3.0, 3.0], [5.0, 5.0, 5.0]]", "own: [7.0, 7.0, 7.0]", "again: [1.0, 1.0, 1.0]",
        "in a child: True", "in a child: True", "child: 5", "still: [3.0, 3.0, 3.0]",
        "spawned: [[15.0, 15.0, 15.0]]",
    ], done.stderr


FORK = """
    import os, sys, threading
    import dflow_core as df

    @df.pyflow
    def add_one(x):
        return x + 1

    with df.FlowGraph([add_one.fnode()(df.FlowData("x"))]) as graph:
        stop = threading.Event()
        user = threading.Thread(target=lambda: [graph(n, timeout=30) for n in iter(stop.is_set, True)])
        user.start()
        for _ in range(6):  # while the other thread holds this or that lock
            pid = os.fork()
            if pid == 0:
                for use in (lambda: graph(1), graph.fetch, lambda: graph.feed({"x": 1}), lambda: next(graph.map([1]))):
                    try:
                        use()
                    except df.ClosedError as error:
                        assert "fork" in str(error)
                sys.exit(4)  # through the end of the `with`, and all that is registered for the end of Python
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            assert code == 4, code
        stop.set()
        user.join()
        print(graph(1, timeout=30))
"""


def test_fork_may_end_in_the_ordinary_way_and_takes_nothing_of_the_graph_along() -> None:
    """BC-090: every use in the fork is refused, and nothing waits for a lock that a thread of the parent held."""
    done = run_program(textwrap.dedent(FORK), limit=50)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


# ------------------------------------------------------------------------------- BC-091: threads

def test_graphs_are_built_fed_fetched_and_ended_by_different_threads() -> None:
    """BC-091: two graphs at once, each built in a thread of its own; names do not clash."""
    def build(number: int) -> df.FlowGraph:
        nodes = [add_one.fnode() for _ in range(20)]
        graph = df.FlowGraph([pair.fnode()(nodes[0](df.FlowData("x")), nodes[1](df.FlowData("x2")))], name=f"g{number}")
        graph.start()
        return graph

    with ThreadPoolExecutor(4) as pool:
        graphs = list(pool.map(build, range(2)))
        for graph in graphs:
            assert sorted(node.name for node in graph.nodes) == ["add_one", "add_one_1", "pair"]
        def feed(graph: df.FlowGraph) -> list[int]:
            return [graph.feed({"x": n, "x2": -n}, timeout=20) for n in range(100)]

        feeding = [pool.submit(feed, graph) for graph in graphs]
        fetching = [pool.submit(lambda g=graph: [g.fetch(timeout=20) for _ in range(100)]) for graph in graphs]
        for done in fetching:
            assert done.result(60) == [(n + 1, 1 - n) for n in range(100)]
        assert all(len(done.result(60)) == 100 for done in feeding)
        pool.submit(df.finalize).result(60)
    for graph in graphs:
        with pytest.raises(df.ClosedError):
            graph(1, 1)
        graph.close()


def test_many_threads_share_one_graph() -> None:
    """BC-091: calls, maps and feeds at once; each gets its own."""
    def call(number: int) -> bool:
        own = [graph(1000 * number + n, timeout=30) == 1000 * number + n + 1 for n in range(30)]
        mapped = list(graph.map(range(number, number + 30), timeout=30))
        return all(own) and mapped == list(range(number + 1, number + 31))

    with chain(add_one) as graph, ThreadPoolExecutor(12) as pool:
        assert all(pool.map(call, range(12)))
        check_idle(graph)


def test_graph_is_built_and_run_from_an_asyncio_executor() -> None:
    """BC-091."""
    async def main() -> list[object]:
        loop = asyncio.get_running_loop()
        graph = chain(add_one)
        await loop.run_in_executor(None, graph.start)
        try:
            results: list[object] = list(await asyncio.gather(*(graph.acall(n, timeout=20) for n in range(20))))
            results.append(await loop.run_in_executor(None, lambda: graph(99, timeout=20)))
        finally:
            await loop.run_in_executor(None, graph.close)
        return results

    assert asyncio.run(main()) == [*range(1, 21), 100]


def test_cancelled_async_calls_cost_no_slot() -> None:
    """BC-054, BC-091: tasks are cancelled while they wait."""
    async def main(graph: df.FlowGraph) -> object:
        tasks = [asyncio.ensure_future(graph.acall(n, timeout=20)) for n in range(30)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [r for r in results if not isinstance(r, BaseException)] == [n + 1 for n in range(1, 30, 2)]
        return await graph.acall(41, timeout=20)

    with chain(add_one) as graph:
        assert asyncio.run(main(graph)) == 42
        check_idle(graph)


# ------------------------------------------------------------------------------- BC-092: names

def test_names_that_users_and_automation_choose_never_merge_nodes() -> None:
    """BC-092: add, add, and a user's add_1; every node runs."""
    x = df.FlowData("x")
    first = add_one.fnode("add_one_1")(x)
    second, third = add_one.fnode()(first), add_one.fnode()(add_one.fnode()(first))
    with df.FlowGraph([first, second, third]) as graph:  # type: ignore[list-item]
        assert graph(0, timeout=20) == (1, 2, 3)
        assert len({node.name for node in graph.nodes}) == 4
        assert len(graph.running.model.submodels) == 4


@pytest.mark.parametrize("clash", ["node", "alias", "input"])
def test_names_given_twice_are_refused(clash: str) -> None:
    """BC-092."""
    x, other = df.FlowData("x"), df.FlowData("x" if clash == "input" else "y")
    left, right = add_one.fnode("left"), add_one.fnode("left" if clash == "node" else "right")
    if clash == "alias":
        right.set_alias("left")
    with pytest.raises(df.GraphError, match="left|'x'") as caught:
        df.FlowGraph([left(x), right(other)]).start()  # type: ignore[list-item]
    assert all("duplicate" in fault.kind for fault in caught.value.faults)


@pytest.mark.parametrize("name", ["a/b", "with blanks", "模型" * 40, "x" * 120, "-", "..", "%s{}"])
def test_odd_names_work_everywhere_or_are_refused_at_once(name: str, tmp_path: object) -> None:
    """BC-092, BC-084: as names of nodes, graphs and inputs, with a log file for each node."""
    try:
        node = add_one.fnode(name)
    except df.UsageError as error:
        assert repr(name)[1:5] in str(error)
        return
    graph = df.FlowGraph([node(df.FlowData(name))], {"output": f"dir:{tmp_path}/logs"}, name)  # type: ignore[list-item]
    with graph:
        assert graph(1, timeout=20) == 2
        assert graph.input_names == (name,) and graph.output_names == (name,)


# ------------------------------------------------------------------------------- BC-093: wiring

def test_check_finds_every_wiring_mistake_at_once_fast_and_without_a_process() -> None:
    """BC-093: unconnected, cycle, wrong arity, dtype and shape between models, missing file; each with its node."""
    from dflow_core.session import DFlowSession

    x = df.FlowData("x")
    open_end = pair.fnode("open_end")
    loop = pair.fnode("loop")
    loop(x, x)
    loop._sources[1] = loop.outputs[0]
    missing = df.GraphProcessPoint(df.Framework.ONNX, "/no/such/file.onnx").fnode(1, 1, "missing")
    halves = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_f16.onnx").fnode(2, 1, "halves")
    wide = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx").fnode(2, 1, "wide")
    few = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx").fnode(1, 1, "few")
    wide(halves(x, x), x)  # type: ignore[arg-type]
    graph = df.FlowGraph([node.outputs[0] for node in (open_end, loop, wide)] + [missing(x), few(x)])  # type: ignore[list-item]
    with DFlowSession() as session:
        session.registry  # noqa: B018 - loading plugins is not what is measured
        children = os.listdir(f"/proc/self/task/{threading.get_native_id()}")
        began = time.monotonic()
        faults = session.check(graph)
        assert time.monotonic() - began < 3
        assert os.listdir(f"/proc/self/task/{threading.get_native_id()}") == children
    by_node = {fault.node: fault for fault in faults}
    assert {"open_end", "loop", "missing", "few", "wide"} <= set(by_node), [str(fault) for fault in faults]
    halved = [fault for fault in faults if fault.node == "wide" and fault.port == "input 0"]
    assert halved and "float16" in halved[0].message and "float[3]" in halved[0].message
    assert "/no/such/file.onnx" in by_node["missing"].message
    assert by_node["loop"].kind == "cycle" and by_node["open_end"].kind == "unconnected"
    with pytest.raises(df.GraphError) as caught:
        graph.start()
    assert len(caught.value.faults) == len(faults)


def test_indexes_that_do_not_exist_are_refused_where_they_are_written() -> None:
    """BC-093: output and fetch indexes."""
    node = pair.fnode()
    end = node(df.FlowData("a"), df.FlowData("b"))
    with pytest.raises((df.UsageError, IndexError)):
        df.FlowOutput(node, 1) if node.output_num > 1 else node.outputs[1]
    with df.FlowGraph([end], mode="inline") as graph:  # type: ignore[list-item]
        for index in (-1, 1, 7):
            with pytest.raises(df.UsageError, match="no output"):
                graph.fetch([index])
        with pytest.raises(df.UsageError, match="no input 'aa'.*\n.*did you mean a"):
            graph.feed({"aa": np.zeros(1), "b": 1})
