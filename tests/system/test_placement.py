"""Nodes on several logical devices: who works on what, and what becomes of it when something is missing."""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.message import FlowMsg
from dflow_core.udf import AffinityPolicy, BalanceConfig, MetaParams, MetaRunContext

ROWS, COLS = 4, 3
POSITIONS = [(row, col) for row in range(ROWS) for col in range(COLS)]


class Scatter:
    """Deals an array of ROWS x COLS numbers out as so many parts, the last one first."""

    @df.proc_wrapper("i0,o0")
    def deal(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        array = inputs[0].get_tensor()
        assert array is not None
        config = BalanceConfig(ROWS, COLS)
        order = POSITIONS[::-1]
        config.set_data_pos(order)
        return context.set_multi_outputs(0, [np.array([row, col, array[row, col], -1]) for row, col in order], config)


class Work:
    """Works on one part, and sends it where its row meets."""

    @df.init_wrapper()
    def init_flow_func(self, params: MetaParams) -> int:
        self.number = params.get_running_instance_id()
        return 0

    @df.proc_wrapper("i0,o0")
    def work(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        row, col, value, _ = inputs[0].get_tensor().tolist()  # type: ignore[union-attr]
        if value == 666:
            os._exit(3)
        if value == 13:
            return 9900013
        config = BalanceConfig(ROWS, COLS, AffinityPolicy.ROW_AFFINITY)
        config.set_data_pos([(row, col)])
        wrong = BalanceConfig(ROWS, COLS)
        wrong.set_data_pos([(row, col)])
        made = np.array([row, col, value * 2, self.number])
        assert context.set_output(0, made, wrong) == 164000
        return context.set_output(0, made, config)


@df.pyflow
class Rows:
    """Tells which instance a part came to."""

    @df.method()
    def seen(self, part: np.ndarray) -> np.ndarray:
        return np.append(part, os.getpid())


@df.pyflow(gather=True)
def together(parts: list[np.ndarray]) -> list[list[int]]:
    """All parts of a transaction."""
    return [part.tolist() for part in parts]


def scattered(tmp_path: Path, work: str, rows: str) -> df.FlowGraph:
    x = df.FlowData("x")
    deal = df.FuncProcessPoint(py_func=Scatter).fnode(1, 1, "deal").set_balance_scatter()
    works = df.FuncProcessPoint(py_func=Work).fnode(1, 1, "work").set_balance_gather()
    output = together.fnode("together")(Rows.fnode().seen(works(deal(x))))  # type: ignore[attr-defined]
    path = tmp_path / "deploy.json"
    path.write_text(json.dumps({"batch_deploy_info": [
        {"flow_node_list": ["deal"], "logic_device_list": "0:0:0"},
        {"flow_node_list": ["work"], "logic_device_list": work},
        {"flow_node_list": ["Rows"], "logic_device_list": rows},
        {"flow_node_list": ["together"], "logic_device_list": "0:0:0,0:0:1"},
    ]}))
    options = {"deploy_info": str(path), "stop_timeout": "1", "output": "none"}
    return df.FlowGraph([output], options)


@pytest.fixture
def five_devices():
    df.finalize()  # the session that other tests of this process may have begun
    df.init({"logical_devices": 5})
    yield
    df.finalize()


def check(result: object, value: np.ndarray) -> tuple[set[int], dict[int, set[int]]]:
    """A whole set came back in order; gives the instances that worked, and for each row those it came to."""
    assert isinstance(result, list)
    assert [(row, col) for row, col, *_ in result] == POSITIONS
    assert [part[2] for part in result] == (value.reshape(-1) * 2).tolist()
    met = defaultdict(set)
    for row, _, _, _, pid in result:
        met[row].add(pid)
    return {part[3] for part in result}, met


def test_parts_are_dealt_out_meet_by_row_and_come_back_whole(tmp_path, five_devices):
    """BC-100: 4 x 3 parts over 5 instances with row affinity, gathered; a missing part errors its transaction."""
    values = [np.full((ROWS, COLS), 100 * i) + np.arange(ROWS * COLS).reshape(ROWS, COLS) for i in range(6)]
    fails, dies = values[0].copy(), values[0].copy()
    fails[2, 1], dies[1, 1] = 13, 666
    with scattered(tmp_path, "0:0:0~4", "0:0:0~2") as graph:
        homes = {}
        for value, result in zip(values, graph.map(values, timeout=30)):
            workers, met = check(result, value)
            assert workers == set(range(5))
            assert all(len(pids) == 1 for pids in met.values()), "a row came to several instances"
            homes[int(value[0, 0])] = [next(iter(met[row])) for row in range(ROWS)]
        # By transaction and row: the instance of row r + 1 is the next one, that of the next transaction too.
        for value, rows in homes.items():
            assert len(set(rows)) == 3 and rows[0] == rows[3]
            assert value == 500 or homes[value + 100][:3] == rows[1:]
        with pytest.raises(df.NodeError, match="9900013"):
            graph(fails, timeout=30)
        check(graph(values[1], timeout=30), values[1])
        with pytest.raises(df.InstanceLostError):
            graph(dies, timeout=30)
        check(graph(values[1], timeout=30), values[1])


def test_one_instance_of_everything_gives_the_same(tmp_path, five_devices):
    """BC-100: the same graph on one device."""
    value = np.arange(ROWS * COLS).reshape(ROWS, COLS)
    with scattered(tmp_path, "0:0:4", "0:0:1") as graph:
        workers, met = check(graph(value, timeout=30), value)
        assert workers == {0} and len({pid for pids in met.values() for pid in pids}) == 1


@df.pyflow
def libraries(_: int) -> list[int]:
    """Threads that OpenCV may use here, and those that OpenMP is told."""
    import cv2

    return [cv2.getNumThreads(), int(os.environ["OMP_NUM_THREADS"])]


def test_libraries_in_a_node_use_the_threads_of_its_budget(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # a user's own value goes before the budget
    x = df.FlowData("x")
    nodes = [libraries.fnode("one"), libraries.fnode("three", threads=3)]
    with df.FlowGraph([node(x) for node in nodes], {"stop_timeout": "1"}) as graph:  # type: ignore[misc]
        assert graph(0, timeout=30) == ([1, 1], [3, 3])
        budget = graph.running.deployment.plan.budget  # type: ignore[union-attr]
        assert [(share.node, share.threads) for share in budget] == [("one", 1), ("three", 3)]


@df.pyflow
def where(value: int) -> tuple[int, int]:
    """What came, and which process it came to."""
    return value, os.getpid()


@df.pyflow
def both(value: int, pid: int) -> tuple[int, int, int]:
    """A join."""
    return value, pid, os.getpid()


def test_dispatch_by_label_by_transaction_and_to_joins(tmp_path):
    x = df.FlowData("x")
    value, pid = where.fnode("where", instances=2, dispatch="sticky")(x)  # type: ignore[misc]
    joined = both.fnode("both", instances=3, dispatch="least_loaded")(value, pid)
    with df.FlowGraph([joined], {"stop_timeout": "1"}) as graph:  # type: ignore[arg-type]
        assert [one.dispatch for one in graph.running.deployment.plan.placements] == ["sticky", "transaction"]  # type: ignore[union-attr]
        homes, joins = defaultdict(set), defaultdict(set)
        for i in range(12):
            trans_id = graph.feed({"x": i}, info=df.FeedInfo(route_label=i % 3 + 1))
            (got, home, join), info = graph.fetch(with_info=True, timeout=30)  # type: ignore[misc]
            assert got == i and info.route_label == i % 3 + 1
            homes[i % 3].add(home)
            joins[(trans_id + info.route_label) % 3].add(join)
        assert all(len(pids) == 1 for pids in homes.values())
        assert homes[0] == homes[2] != homes[1]  # labels 1 and 3 of two instances
        assert all(len(pids) == 1 for pids in joins.values()) and len(set.union(*joins.values())) == 3


@df.pyflow
def plus(array: np.ndarray) -> np.ndarray:
    return array + 1


@df.pyflow
def signed(array: np.ndarray) -> np.ndarray:
    return np.append(array, os.getpid())


def test_arrays_take_turns_over_the_instances_of_a_node():
    x = df.FlowData("x")
    node = signed.fnode(instances=3, dispatch="transaction")
    with df.FlowGraph([node(plus.fnode()(x))], {"stop_timeout": "1"}) as graph:  # type: ignore[arg-type]
        results = list(graph.map([np.array([i]) for i in range(9)], ordered=True, timeout=30))
    assert [int(array[0]) for array in results] == list(range(1, 10))
    pids = [int(array[1]) for array in results]
    assert len(set(pids)) == 3 and pids[:3] == pids[3:6] == pids[6:]


def test_mistakes_are_told_before_anything_starts(tmp_path):
    """BC-101: in every mode, and nothing was started."""
    path = tmp_path / "deploy.json"
    path.write_text('{"batch_deploy_info": [{"flow_node_list": ["wher"],\n "logic_device_list": "0:0:3~1"}]}')
    for mode in ("process", "inline"):
        graph = df.FlowGraph([where.fnode()(df.FlowData("x"))], {"deploy_info": str(path)}, mode=mode)  # type: ignore[arg-type]
        with pytest.raises(df.PlacementError) as caught:
            graph.start()
        assert [fault.port for fault in caught.value.faults] == ["line 2, batch_deploy_info[0].logic_device_list"]


@df.pyflow(instances=3)
def slow_first(given: tuple[int, str]) -> int:
    """The first one waits until the others have begun."""
    value, gate = given
    with open(gate, "ab") as file:
        file.write(b"x")
    limit = threading.Event()
    for _ in range(3000):
        if value or os.path.getsize(gate) >= 6:
            break
        limit.wait(0.01)
    if value == 2:
        raise ValueError("two")
    return value


def test_fetch_keeps_the_order_in_which_was_fed_if_that_is_asked_for(tmp_path):
    graph = df.FlowGraph([slow_first.fnode()(df.FlowData("x"))], {"ordered": "1", "stop_timeout": "1"})  # type: ignore[arg-type]
    with graph:
        for i in range(6):
            graph.feed({"x": (i, str(tmp_path / "gate"))})
        assert [graph.fetch(timeout=30) for _ in range(2)] == [0, 1]
        with pytest.raises(df.NodeError, match="two"):
            graph.fetch(timeout=30)
        assert [graph.fetch(timeout=30) for _ in range(3)] == [3, 4, 5]


def test_the_least_loaded_instance_gets_the_next_message():
    @df.pyflow(instances=2, dispatch="least_loaded")
    def held(gate: str) -> int:
        import time

        limit = time.monotonic() + 30
        while gate and not os.path.exists(gate) and time.monotonic() < limit:
            time.sleep(0.001)
        return os.getpid()

    gate = Path(os.environ.get("TMPDIR", "/tmp"), f"dflow-gate-{os.getpid()}")
    x = df.FlowData("x")
    with df.FlowGraph([held.fnode()(x)], {"stop_timeout": "1"}) as graph:
        graph.feed({"x": str(gate)})  # one instance is busy; two more wait for it, or for the other one
        for _ in range(8):
            graph.feed({"x": ""})
        try:
            free = {graph.fetch(timeout=30) for _ in range(4)}
            assert len(free) == 1
        finally:
            gate.touch()
        rest = [graph.fetch(timeout=30) for _ in range(5)]
        assert len({*rest, *free}) == 2
        gate.unlink()
