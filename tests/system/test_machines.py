"""Graphs over several machines: the same results, errors and end as on one."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.errors import LinkLostError
from dflow_core.testing.waiting import is_alive, wait_until
from tests.system.machines_support import Machines, machines

HERE, THERE, FURTHER = "0:0:-1:0", "0:1:-1:0", "0:2:-1:0"
QUIET = {"output": "none", "stop_timeout": "3"}


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with machines(tmp_path_factory.mktemp("machines")) as made:
        made.start(2)
        yield made


@pytest.fixture
def elsewhere(lasting: Machines) -> Iterator[Machines]:
    """Two other machines, which are as before when the test is over."""
    before = [other.holds() for other in lasting.others]
    with lasting.resources():
        yield lasting
    wait_until(lambda: [other.holds() for other in lasting.others] == before)


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[Machines]:
    """Another machine that the test may end."""
    with machines(tmp_path) as made:
        made.start()
        with made.resources():
            yield made


def node(name: str, function: Callable[..., object], *inputs: object, **options: object) -> object:
    """One node of a function; travels by value."""
    return df.pyflow(function, **options).fnode(name=name)(*inputs)


def chain(deploy_info: str, **options: str) -> df.FlowGraph:
    """a: x + 1, b: 2 * x, c: x - 1; b raises for 13."""
    def double(x):
        if x.size and x.dtype.kind == "f" and x.flat[0] == 13:
            raise ValueError("unlucky")
        return x * 2

    made = node("a", lambda x: x + 1, df.FlowData("x"))
    made = node("c", lambda x: x - 1, node("b", double, made))
    return df.FlowGraph([made], {**QUIET, **options, "deploy_info": deploy_info})


def copies(deploy_info: str, **options: str) -> df.FlowGraph:
    """near -> far -> back, all of which give what they get."""
    made = df.FlowData("x")
    for name in ("near", "far", "back"):
        made = node(name, lambda x: x, made)
    return df.FlowGraph([made], {**QUIET, **options, "deploy_info": deploy_info})


@pytest.mark.parametrize("places", [(HERE, THERE, HERE), (THERE, THERE, THERE), (THERE, HERE, THERE)])
def test_results_are_those_of_one_machine(elsewhere, places):
    with chain(elsewhere.place(**dict(zip("abc", places)))) as graph:
        found = list(graph.map([np.full(5, float(i)) for i in range(20, 60)], in_flight=8))
        assert [x.tolist() for x in found] == [[2 * i + 1.0] * 5 for i in range(20, 60)]


def test_between_two_other_machines_messages_pass_this_one(elsewhere):
    with chain(elsewhere.place(a=THERE, b=FURTHER, c=THERE)) as graph:
        assert [x.tolist() for x in graph.map([np.arange(4.0)] * 30)] == [[1.0, 3.0, 5.0, 7.0]] * 30
        assert {one.machine for one in graph.running.stats().nodes} == {"server1", "server2"}


ROWS = {
    "transposed": np.arange(12.0).reshape(3, 4).T,
    "every second": np.arange(10)[::2],
    "reversed": np.arange(5)[::-1],
    "broadcast": np.broadcast_to(np.float32(3), (4, 5)),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "scalar": np.array(7.0),
    "empty": np.zeros((0, 4), np.float32),
    "no columns": np.zeros((4, 0, 2), np.int8),
    "bool": np.array([True, False]),
    "half": np.arange(3, dtype=np.float16),
    "strings": np.array(["深度", "é", "", " a "]),
    "bytes": np.array([b"a\0b", b"c\0"], object),
    "page and a byte": np.arange(4097, dtype=np.uint8),
    "power of two less one": np.arange((1 << 20) - 1, dtype=np.uint8),
    "dictionary": {"a": [1, 2], "b": None},
}


def test_every_kind_of_value_survives_the_way(elsewhere):
    """BC-066, BC-067, BC-070 and BC-072 over a link."""
    with copies(elsewhere.place(near=HERE, far=THERE, back=HERE)) as graph:
        for name, value in ROWS.items():
            found = graph(value)
            if isinstance(value, np.ndarray):
                assert (found.shape, found.tolist()) == (value.shape, value.tolist()), name
            else:
                assert found == value, name


@pytest.mark.parametrize("size", [1, 4, 5, 64, 300])
def test_tensors_larger_than_a_grpc_message_come_whole(elsewhere, size):
    """BC-075: size in MiB."""
    with copies(elsewhere.place(near=HERE, far=THERE, back=HERE)) as graph:
        value = np.arange(size << 17, dtype=np.uint64)
        assert np.array_equal(graph(value), value)


@pytest.mark.slow
def test_a_tensor_beyond_two_gib_comes_whole(elsewhere):
    """BC-075, largest row; needs about 7 GiB of memory."""
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if pages < 12 << 30:
        pytest.skip(f"it takes 12 GiB of free memory, there are {pages >> 30}")
    with copies(elsewhere.place(near=HERE, far=THERE, back=HERE), memory_limit=str(8 << 30)) as graph:
        value = np.zeros(2100 << 17, np.uint64)
        value[::4096] = np.arange(len(value[::4096]))
        assert np.array_equal(graph(value), value)


def test_a_message_that_fits_into_no_memory_there_names_both_machines(elsewhere):
    """BC-075: a real limit."""
    made = node("grow", lambda x: np.zeros(int(x), np.uint8), df.FlowData("x"))
    made = node("far", lambda x: len(x), made)
    info = elsewhere.place(grow=HERE, far=THERE)
    with df.FlowGraph([made], {**QUIET, "deploy_info": info, "memory_limit": str(32 << 20)}) as graph:
        with pytest.raises(df.DflowError, match="33554432|32"):
            graph(40 << 20)
        assert graph(1 << 20) == 1 << 20


def test_an_error_there_ends_its_own_transaction(elsewhere):
    with chain(elsewhere.place(a=HERE, b=THERE, c=HERE)) as graph:
        with pytest.raises(df.NodeError, match="unlucky") as caught:
            graph(np.full(3, 12.0))
        assert (caught.value.node, caught.value.instance) == ("b", 0)
        assert 'raise ValueError("unlucky")' in str(caught.value)
        assert graph(np.zeros(2)).tolist() == [1.0, 1.0]


def test_what_does_not_start_there_is_told_here_and_nothing_is_left(elsewhere):
    """BC-098 on another machine."""
    other = elsewhere.others[0]

    @df.pyflow
    class Picky:
        def __init__(self):
            raise ValueError("no such weights")

        @df.method()
        def work(self, x):
            return x

    info = elsewhere.place(a=HERE, Picky=THERE)
    made = node("a", lambda x: x, df.FlowData("x"))
    with pytest.raises(df.StartupError, match=r"no such weights") as caught, df.FlowGraph(
        [Picky.fnode()(made)], {**QUIET, "deploy_info": info}
    ):
        raise AssertionError("it has started")
    assert other.address in str(caught.value) and caught.value.node == "Picky"


def test_an_executor_that_dies_there_is_started_again(elsewhere):

    def work(x):
        if x[0] == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return x * 2

    made = node("a", work, df.FlowData("x"), restarts=3)
    with df.FlowGraph([made], {**QUIET, "deploy_info": elsewhere.place(a=THERE)}) as graph:
        assert graph(np.ones(2)).tolist() == [2, 2]
        with pytest.raises(df.InstanceLostError, match="signal 9"):
            graph(np.full(2, 5.0))
        assert graph(np.full(2, 3.0)).tolist() == [6, 6]


def test_instances_of_a_node_spread_over_machines(elsewhere):

    def where(x):
        return np.array([x[0], os.getppid()])

    made = node("a", where, df.FlowData("x"), instances=3)
    with df.FlowGraph([made], {**QUIET, "deploy_info": elsewhere.place(a=f"{HERE},{THERE},{FURTHER}")}) as graph:
        found = list(graph.map([np.array([i]) for i in range(60)]))
        assert [x[0] for x in found] == list(range(60))
        assert len({int(x[1]) for x in found}) == 3
        assert [one.machine for one in graph.running.stats().nodes] == ["", "server1", "server2"]


def test_a_model_runs_there(elsewhere, models):
    one = df.GraphProcessPoint(df.Framework.ONNX, models / "conv_small.onnx").fnode(1, 1, name="net")
    other = df.GraphProcessPoint(df.Framework.ONNX, models / "conv_small.onnx").fnode(1, 1, name="net")
    with df.FlowGraph([other(df.FlowData("x"))], QUIET) as graph:
        shape = graph.running.model.submodels["net"].inputs[0].shape
        image = np.random.default_rng(1).random([size if size > 0 else 1 for size in shape], np.float32)
        wanted = graph(image)
    with df.FlowGraph([one(df.FlowData("x"))], {**QUIET, "deploy_info": elsewhere.place(net=THERE)}) as graph:
        assert np.allclose(graph(image), wanted, atol=1e-5)


def test_a_call_there_is_cancelled_and_deadlines_hold(elsewhere):

    def slow(x):
        mine = df.current_transaction()
        while not mine.cancelled:
            time.sleep(0.001)
        return x

    made = node("a", slow, df.FlowData("x"))
    with df.FlowGraph([made], {**QUIET, "deploy_info": elsewhere.place(a=THERE)}) as graph:
        with pytest.raises(df.DeadlineError):
            graph(np.ones(1), deadline=0.3)
        stats = graph.running.stats
        wait_until(lambda: stats().nodes[0].current is None and stats().nodes[0].calls == 1)


def test_a_graph_is_recovered_over_machines(elsewhere):
    with chain(elsewhere.place(a=HERE, b=THERE, c=HERE)) as graph:
        for number in range(30):
            graph.feed({"x": np.full(2, float(number + 20))})
        graph.suspend(10.0)
        graph.recover(10.0)
        assert graph(np.zeros(2)).tolist() == [1.0, 1.0]


def test_the_end_of_a_stream_goes_through_all_machines(elsewhere):
    made = node("a", lambda x: x, df.FlowData("x"))
    many = df.pyflow(lambda x: (yield from np.array_split(x, 4))).fnode(name="b")(made)
    with df.FlowGraph([many], {**QUIET, "deploy_info": elsewhere.place(a=THERE, b=HERE)}) as graph:
        assert sum(len(x) for x in graph.map([np.arange(8)] * 5)) == 40


def test_losing_a_machine_is_one_clear_error(doomed):
    other = doomed.others[0]
    with chain(doomed.place(a=HERE, b=THERE, c=HERE), link_lease="0.5") as graph:
        assert graph(np.zeros(1)).tolist() == [1.0]
        below = other.below()
        other.kill()
        with pytest.raises(LinkLostError, match=other.address) as caught:
            while True:
                graph(np.zeros(1), timeout=20)
        assert "0.5 s" in str(caught.value) or "lost" in str(caught.value)
    wait_until(lambda: not any(map(is_alive, below)))


def test_a_daemon_that_ends_in_order_is_told_at_once(doomed):
    other = doomed.others[0]
    with chain(doomed.place(a=HERE, b=THERE, c=HERE)) as graph:
        assert graph(np.zeros(1)).tolist() == [1.0]
        other.process.terminate()
        with pytest.raises(LinkLostError, match="the daemon was told to end"):
            while True:
                graph(np.zeros(1), timeout=20)
    assert other.process.wait(10) == 0


def test_a_daemon_serves_several_graphs(elsewhere):
    info = elsewhere.place(a=HERE, b=THERE, c=HERE)
    for _ in range(3):
        with chain(info) as one, chain(info) as two:
            assert one(np.zeros(1)).tolist() == two(np.zeros(1)).tolist() == [1.0]


def test_a_node_elsewhere_cannot_be_exchanged_yet(elsewhere):
    with chain(elsewhere.place(a=HERE, b=THERE, c=HERE)) as graph:
        graph.update("a", df.pyflow(lambda x: x + 2))
        assert graph(np.zeros(1)).tolist() == [3.0]
        with pytest.raises(df.UsageError, match="runs on another machine, where nodes cannot be exchanged yet"):
            graph.update("b", df.pyflow(lambda x: x))
        assert graph(np.zeros(1)).tolist() == [3.0]


def test_what_a_queue_on_another_machine_drops_is_told(elsewhere):
    """Counters hold there too, and a run that lost something says so."""
    def slow(x):
        time.sleep(0.005)
        return x

    first = df.pyflow(lambda x: x).fnode(name="a")
    first.set_queue(0, depth=1, overflow="drop_oldest")
    last = df.pyflow(slow).fnode(name="b")
    info = elsewhere.place(a=THERE, b=THERE)
    with df.FlowGraph([last(first(df.FlowData("x")))], {**QUIET, "deploy_info": info}) as graph:
        for _ in range(30):
            graph.feed({"x": np.zeros(1)})
        while graph.running.client.in_flight:  # what was dropped ends without a result
            with contextlib.suppress(df.WaitTimeoutError):
                graph.fetch(timeout=0.05)
        stats = graph.running.stats()
        (edge,) = [one for one in stats.edges if one.name == "server1: a:0->b:0"]
        assert edge.dropped == stats.transactions.dropped > 0
        assert edge.sent == edge.delivered + edge.dropped + edge.failed + edge.level
        assert "server1: a:0->b:0" in stats.status
