"""Cases of area D: joins, order, sequences, and callers that leave, through whole graphs."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.testing.waiting import is_alive, wait_until
from tests.system.case_support import MIB, MODELS, ROOT, chain, check_idle, pids, stats


@df.pyflow
def same(x):
    return x


@df.pyflow
def jitter(n):
    time.sleep(random.random() * 0.003)
    return n


@df.pyflow
def join(a, b):
    return a, b




# ----------------------------------------------------------------------- BC-048, BC-049: pairs and order

def test_join_pairs_what_belongs_together_behind_a_node_of_three_instances() -> None:
    """BC-048: x goes through three instances that take their time and then through a model, y goes straight."""
    @df.pyflow
    def as_image(n):
        return np.full((1, 3, 32, 32), n % 50, np.float32)

    @df.pyflow
    def index_of(image):
        return int(image.reshape(-1)[0])

    n = df.FlowData("n")
    late = jitter.fnode(instances=3)(n)
    also_late = index_of.fnode()(jitter.fnode("again", instances=2)(as_image.fnode()(n)))
    with df.FlowGraph([join.fnode()(late, n), join.fnode("second")(n, also_late)]) as graph:
        for k, (first, second) in enumerate(graph.map(range(500), in_flight=32, timeout=30)):  # type: ignore[misc]
            assert first == (k, k) and second == (k, k % 50)
        check_idle(graph)


def test_join_behind_a_model_of_three_instances_pairs_with_the_straight_way() -> None:
    """BC-048: with a real model."""
    reference = np.load(MODELS / "add_float.onnx.npz")
    names = [name for name in reference.files if name.startswith("in_")]
    x = df.FlowData("x")
    model = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx").fnode(2, 1)
    model.set_options(instances=3)
    shape = reference[names[0]].shape
    with df.FlowGraph([join.fnode()(model(x, x), x)]) as graph:
        items = (np.full(shape, n, np.float32) for n in range(300))
        for n, (double, single) in enumerate(graph.map(items, in_flight=24, timeout=30)):  # type: ignore[misc]
            assert (double == 2 * n).all() and (single == n).all()
        del double, single
        check_idle(graph)


def test_batch_on_one_way_of_a_join_is_refused_unless_it_is_taken_apart_again() -> None:
    """BC-048: with CountBatch on the x way."""
    @df.pyflow
    def twice(batch):
        return batch * 2

    x = df.FlowData("x")
    node = twice.fnode()
    node.map_input(0, node.point, 0, [df.CountBatch(4, timeout=0.05)])
    with pytest.raises(df.GraphError) as caught:
        df.FlowGraph([join.fnode()(node(x), x)]).start()
    assert {fault.kind for fault in caught.value.faults} == {"alignment"}
    rows = df.builtin_node("_BuiltIn_Unbatch", 1, 1)(jitter.fnode()(node(x)))
    with df.FlowGraph([join.fnode()(rows, x)]) as graph:
        results = list(graph.map((np.array(n) for n in range(101)), in_flight=16, timeout=30))
        assert [(int(a), int(b)) for a, b in results] == [(2 * n, n) for n in range(101)]  # type: ignore[misc]


def test_results_come_in_order_when_asked_also_around_errors_and_each_names_its_transaction() -> None:
    """BC-049: four instances with random delays, every tenth item fails."""
    @df.pyflow(instances=4)
    def picky(n):
        time.sleep(random.random() * 0.004)
        if n % 10 == 7:
            raise ValueError(n)
        return n

    with chain(picky) as graph:
        results = list(graph.map(range(200), errors="return", in_flight=16, timeout=30))
        assert [r if isinstance(r, int) else int(r.message.split(": ")[1].split("\n")[0]) for r in results] == list(  # type: ignore[attr-defined]
            range(200)
        )
        ids = [graph.feed({"x": n}) for n in range(100, 107)]
        found = [graph.fetch(timeout=20, with_info=True) for _ in ids]
        assert {info.transaction_id: value for value, info in found} == dict(zip(ids, range(100, 107)))  # type: ignore[misc]
        unordered = list(graph.map(range(0, 1000, 10), ordered=False, in_flight=16, timeout=30))
        assert sorted(unordered) == list(range(0, 1000, 10))  # type: ignore[type-var]


# ----------------------------------------------------------------------- BC-050 to BC-055: callers that leave

@df.pyflow
def split(tag):
    for part in range(3):
        yield tag, part


@df.pyflow(gather=True)
def collect(parts):
    return sorted(parts)


def leave_at_random(graph: df.FlowGraph, tags: list[str], rounds: int, seed: int) -> tuple[list[object], int]:
    """Call from several threads, with limits that often pass; gives results of others, and how often one left."""
    wrong: list[object] = []
    left = [0] * len(tags)

    def client(number: int, tag: str) -> None:
        chance = random.Random(seed + number)
        for k in range(rounds):
            try:
                result = graph((tag, k), timeout=chance.choice([0, chance.uniform(0, 0.004), 20]))
            except df.WaitTimeoutError:
                left[number] += 1
                continue
            if result != [((tag, k), part) for part in range(3)]:
                wrong.append(((tag, k), result))

    threads = [threading.Thread(target=client, args=item) for item in enumerate(tags)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return wrong, sum(left)


def test_nobody_gets_parts_of_a_sequence_that_another_one_left() -> None:
    """BC-050, BC-054, BC-055: 6 threads leave at random; state is kept by transaction, and gauges are 0 afterwards."""
    with chain(split, jitter, collect) as graph:
        wrong, left = leave_at_random(graph, list("abcdef"), 40, seed=3)
        assert wrong == [] and left > 20
        assert graph(("last", 0), timeout=20) == [(("last", 0), part) for part in range(3)]
        check_idle(graph)
        assert graph.counters.failed == 0


def test_reused_transaction_id_starts_afresh() -> None:
    """BC-050: ids may be used again once their transaction has ended; what was left of it stays apart."""
    with chain(split, collect) as graph:
        for k in range(5):
            graph.feed({"x": k}, info=df.FeedInfo(transaction_id=9))
            value, info = graph.fetch(timeout=20, with_info=True)  # type: ignore[misc]
            assert (value, info.transaction_id) == ([(k, part) for part in range(3)], 9)
        with pytest.raises(df.UsageError, match="below"):
            graph.feed({"x": 1}, info=df.FeedInfo(transaction_id=3))
        check_idle(graph)


def cpu_seconds(pid: int) -> float:
    """CPU time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_transactions_that_wait_for_a_part_cost_no_time() -> None:
    """BC-051: 100 incomplete transactions; nothing spins, and each completes once when its part comes."""
    a, b = df.FlowData("a"), df.FlowData("b")
    with df.FlowGraph([join.fnode()(a, b)]) as graph:
        for n in range(100):
            graph.feed({"a": n}, partial=True)
        wait_until(lambda: all(queue.level == 0 for queue in stats(graph).queues))
        watched = [os.getpid(), *pids(graph)]
        before = [cpu_seconds(pid) for pid in watched]
        with pytest.raises(df.WaitTimeoutError):
            graph.fetch(timeout=1.5)
        used = [cpu_seconds(pid) - earlier for pid, earlier in zip(watched, before)]
        assert max(used) < 0.15, used
        for n in range(100):
            graph.feed({"b": -n}, partial=True)
        assert [graph.fetch(timeout=20) for _ in range(100)] == [(n, -n) for n in range(100)]
        check_idle(graph)


SEQUENCES = """
import os, signal
import dflow_core as df
from tests.system.case_support import pids
from tests.system.test_cases_d import join
a, b = df.FlowData("a"), df.FlowData("b")
with df.FlowGraph([join.fnode()(a, b)]) as graph:
    print(*pids(graph), flush=True)
    for n in range(2000):
        graph.feed({"a": n}, partial=True, timeout=20)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_caller_that_dies_in_mid_sequence_leaves_nothing() -> None:
    """BC-052: half of 2000 transactions are fed when it is killed."""
    done = subprocess.run(
        [sys.executable, "-c", SEQUENCES], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    executors = [int(word) for word in done.stdout.split()]
    assert executors
    wait_until(lambda: not any(map(is_alive, executors)))


@pytest.mark.parametrize("rounds", [300, pytest.param(5000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_callers_that_leave_before_their_work_begins_cost_no_slot(rounds: int) -> None:
    """BC-054, BC-055: limits of 0 to 3 ms against one instance; then a call works at once, and every gauge is 0."""
    chance = random.Random(54)
    with chain(jitter, options={"queue_depth": "2"}) as graph:
        left = 0
        for n in range(rounds):
            try:
                assert graph(n, timeout=chance.uniform(0, 0.003)) == n
            except df.WaitTimeoutError:
                left += 1
        assert left > rounds / 10
        began = time.monotonic()
        assert graph(-1, timeout=20) == -1
        assert time.monotonic() - began < 1
        check_idle(graph)
        assert graph.counters.fed <= rounds + 1


def test_map_that_is_left_early_costs_no_slot() -> None:
    """BC-054: the items under way are worked off and let go."""
    with chain(jitter) as graph:
        for _ in range(20):
            for n in graph.map(range(100), in_flight=12, timeout=20):
                if n == 3:
                    break
        assert graph(5, timeout=20) == 5
        check_idle(graph)


def test_gauges_are_zero_after_a_node_with_a_full_queue_was_started_again() -> None:
    """BC-055."""
    with chain(jitter, options={"queue_depth": "8"}) as graph:
        for n in range(8):
            graph.feed({"x": n})
        os.kill(pids(graph)[0], signal.SIGKILL)
        ended = 0
        while graph.running.client.in_flight or ended < 8:
            with contextlib.suppress(df.InstanceLostError):
                graph.fetch(timeout=20)
            ended += 1
        assert ended == 8
        check_idle(graph)


# ----------------------------------------------------------------------- BC-060, BC-061: long and hard use

@df.pyflow(restarts=100_000)
def frames(request):
    for number in range(request["parts"]):
        yield np.full(2 * MIB, number, np.uint8)


@df.pyflow(restarts=100_000)
def brightness(frame):
    return int(frame[-1])


def soak(seconds: float, rate: float) -> None:
    """Two callers with a generator of 2 MiB parts; one of them leaves again and again."""
    stop = threading.Event()
    finished = [0, 0]

    def caller(number: int) -> None:
        while not stop.is_set():
            limit = 0.01 if number and finished[1] % 5 == 4 else 30
            try:
                assert graph({"parts": 4}, timeout=limit) == [0, 1, 2, 3]
            except df.WaitTimeoutError:
                assert limit < 1
            finished[number] += 1

    with chain(frames, brightness) as graph:
        threads = [threading.Thread(target=caller, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        marks = []
        try:
            for _ in range(4):
                before = sum(finished)
                stop.wait(seconds / 4)
                marks.append(sum(finished) - before)
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        assert min(marks) > 0, f"no progress in a quarter of the time: {marks}"
        assert min(marks) * 4 > rate * seconds, marks
        check_idle(graph)


def test_soak_goes_on_steadily_while_a_caller_comes_and_goes() -> None:
    """BC-060, short form."""
    soak(3, rate=1)


@pytest.mark.slow
@pytest.mark.timeout(2000)
def test_soak_long_form() -> None:
    """BC-060."""
    soak(1800, rate=20)


def test_sixty_four_callers_over_four_instances_survive_the_loss_of_one_after_another() -> None:
    """BC-061: SIGKILL and SIGSEGV; only what the dead instance held fails, and the totals add up."""
    @df.pyflow(instances=4, restarts=1000)
    def work(n):
        time.sleep(0.002)
        return n

    results: dict[int, object] = {}

    def caller(number: int) -> None:
        for n in range(number, 640, 64):
            try:
                results[n] = graph(n, timeout=30)
            except df.InstanceLostError as error:
                results[n] = error

    with chain(work) as graph:
        threads = [threading.Thread(target=caller, args=(number,)) for number in range(64)]
        for thread in threads:
            thread.start()
        kills = 0
        while any(thread.is_alive() for thread in threads) and kills < 8:
            if len(results) > 60 * (kills + 1):
                running = pids(graph)
                os.kill(random.choice(running), (signal.SIGKILL, signal.SIGSEGV)[kills % 2])
                kills += 1
            threads[0].join(0.005)
        for thread in threads:
            thread.join(60)
        assert sorted(results) == list(range(640)) and kills > 3
        lost = [n for n, result in results.items() if isinstance(result, df.InstanceLostError)]
        assert all(result == n for n, result in results.items() if n not in lost)
        assert len(lost) <= 2 * kills, (lost, kills)
        assert (graph.counters.fed, graph.counters.failed) == (640, len(lost))
        check_idle(graph)
