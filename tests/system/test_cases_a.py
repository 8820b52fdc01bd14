"""Cases of area A: shared memory, buffers and processes, through whole graphs."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.testing.waiting import wait_until
from tests.system.case_support import MIB, ROOT, chain, check_idle, pids, stats


@df.pyflow
def same(x):
    return x


@df.pyflow
def size_of(x):
    return x.nbytes


@df.pyflow
class Hoarder:
    """Keeps the first inputs it gets."""

    def __init__(self, count):
        self.count = count
        self.kept = []

    @df.method()
    def take(self, x):
        if len(self.kept) < self.count:
            self.kept.append(x)
        return len(self.kept)


def hoarder(count: int, **options: str) -> df.FlowGraph:
    """A graph whose only node keeps its first inputs."""
    node = Hoarder.fnode(count)  # type: ignore[attr-defined]
    return df.FlowGraph([node.take(df.FlowData("x"))], options)


# ------------------------------------------------------------------------------- BC-001, BC-002: after a crash

RESTARTED = """
import sys, numpy as np, dflow_core as df
@df.pyflow
def double(x):
    return x * 2
x = df.FlowData("x")
with df.FlowGraph([double.fnode()(double.fnode()(x))], name="the_same_name") as graph:
    one = np.ones(50_000, sys.argv[1])
    assert graph(one).dtype == one.dtype
    print("fed", flush=True)
    for _ in range(int(sys.argv[2])):
        graph(one)
    print("done", flush=True)
"""


def application(dtype: str, rounds: int) -> subprocess.Popen[str]:
    """The same application with one dtype on its edges."""
    return subprocess.Popen(
        [sys.executable, "-c", RESTARTED, dtype, str(rounds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def kill_and_start_again(rounds: int, seed: int) -> None:
    """Kill the application around its first feed, and start it again at once with another dtype."""
    chance = random.Random(seed)
    shared = set(os.listdir("/dev/shm"))
    for number in range(rounds):
        with application("float32", 10**9) as first:
            if number % 2:
                assert first.stdout is not None and first.stdout.readline() == "fed\n"
            threading.Event().wait(chance.uniform(0, 0.3))
            first.kill()
        with application(("float32", "int16")[number % 2], 3) as second:
            output, errors = second.communicate(timeout=30)
            assert (output, second.returncode) == ("fed\ndone\n", 0), errors
    assert set(os.listdir("/dev/shm")) <= shared


def test_application_killed_around_its_first_feed_starts_again_without_any_cleaning() -> None:
    """BC-001, BC-002: the same names, and another dtype on an edge."""
    kill_and_start_again(2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_application_killed_around_its_first_feed_starts_again_long_form() -> None:
    """BC-002."""
    kill_and_start_again(200, seed=2)


# ------------------------------------------------------------------------------- BC-004, BC-007, BC-008, BC-009

def test_blocks_that_a_dead_sink_held_come_back() -> None:
    """BC-004: 8 of 16 MiB are held by a node that dies; feeding 200 more never starves, and nothing else fails."""
    with hoarder(8, memory_limit=str(16 * MIB)) as graph:
        item = np.zeros(MIB - 4096, np.uint8)
        assert [graph(item, timeout=20) for _ in range(8)] == list(range(1, 9))
        assert stats(graph).blocks_in_use == 8
        (pid,) = pids(graph)
        (holder,) = [h for h in stats(graph).holders if h.pid == pid]
        assert holder.blocks == 8 and "Hoarder" in holder.label
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: pids(graph) not in ([], [pid]))
        assert pid not in {h.pid for h in stats(graph).holders}
        results = list(graph.map((item for _ in range(200)), timeout=20))
        assert results[-1] == 8 and len(results) == 200
        assert (graph.counters.failed, graph.counters.delivered) == (0, 208)
        wait_until(lambda: stats(graph).blocks_in_use == 8)  # what the new process keeps


def test_memory_of_the_pool_reaches_a_level_and_stays_there() -> None:
    """BC-007: sizes of 4 KiB, 1 MiB and now and then 40 MiB through four instances; free memory can be given back."""
    chance = np.random.default_rng(7)
    big, middle, small = (np.zeros(size, np.uint8) for size in (40 * MIB, MIB, 4096))
    backed: list[int] = []
    node = same.fnode(instances=4)
    with df.FlowGraph([node(df.FlowData("x"))]) as graph:
        def items() -> object:
            for n in range(600):
                if n % 100 == 99:
                    backed.append(stats(graph).bytes_backed)
                yield big if n % 100 == 50 else (middle, small)[int(chance.integers(2))]

        assert sum(1 for _ in graph.map(items(), timeout=30)) == 600  # type: ignore[arg-type]
        # What can be under way at once: one big and `in_flight` middle ones, on the way in and on the way out.
        bound = 2 * (2 * big.nbytes + graph.running.default_in_flight * middle.nbytes) + 32 * MIB
        assert max(backed) < bound, backed
        assert backed[-1] <= backed[1] * 1.25 + 16 * MIB, backed
        check_idle(graph)
        graph.running.deployment.group.trim()  # type: ignore[union-attr]
        assert stats(graph).bytes_backed == 0


def test_queues_that_want_more_than_the_memory_limit_wait_and_then_say_who_holds_it() -> None:
    """BC-008: queues that could hold 256 MiB in 64 MiB; never a crash, and the graph works on."""
    options = {"memory_limit": str(64 * MIB), "max_unfetched": "256", "queue_depth": "32"}
    with chain(same, options=options) as graph:
        item = np.zeros(8 * MIB, np.uint8)
        assert sum(1 for _ in graph.map((item for _ in range(40)), timeout=30)) == 40
        with pytest.raises(df.PoolExhaustedError) as caught:
            for _ in range(20):
                graph.feed({"x": item}, timeout=0.5)
        text = str(caught.value)
        assert "memory_limit" in text or "64" in text
        fed = graph.counters.fed
        assert [graph.fetch(timeout=20).nbytes for _ in range(fed - 40)] == [item.nbytes] * (fed - 40)  # type: ignore[attr-defined]
        assert graph(item, timeout=20).nbytes == item.nbytes  # type: ignore[attr-defined]


def test_sizes_around_a_page_and_up_to_the_limit_arrive_and_what_is_too_large_is_one_error() -> None:
    """BC-009: 4095 to 65536 bytes, then twice as much until there is no memory; the graph stays usable."""
    with chain(size_of, options={"memory_limit": str(32 * MIB)}) as graph:
        for size in (0, 1, 4095, 4096, 4097, 65_536):
            assert graph(np.zeros(size, np.uint8), timeout=20) == size
        size = 65_536
        with pytest.raises(df.PoolExhaustedError):
            while size < 1024 * MIB:
                size *= 2
                assert graph(np.zeros(size, np.uint8), timeout=20) == size
        assert size == 32 * MIB
        assert graph(np.zeros(MIB, np.uint8), timeout=20) == MIB
        check_idle(graph)


@pytest.mark.skipif(os.getuid() != 0 or not Path("/usr/bin/unshare").exists(), reason="needs root and unshare")
def test_graph_runs_with_an_unusably_small_shared_memory_folder() -> None:
    """BC-008: /dev/shm of one page, in a mount namespace of its own; 96 MiB are under way."""
    code = (
        "import numpy as np, dflow_core as df\n"
        "@df.pyflow\ndef same(x):\n    return x\n"
        "with df.FlowGraph([same.fnode()(df.FlowData('x'))]) as graph:\n"
        "    print(sum(r.nbytes for r in graph.map([np.ones(32 << 20, np.uint8)] * 3, in_flight=3)))\n"
    )
    script = 'mount -t tmpfs -o size=4k none /dev/shm && exec "$0" -c "$1"'
    done = subprocess.run(
        ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", script, sys.executable, code], capture_output=True, text=True,
        timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.stdout == f"{3 * 32 * MIB}\n", done.stderr


# ------------------------------------------------------------------------------- BC-016, BC-018, BC-019: buffers

def test_part_of_a_result_stays_what_it_was_while_the_pool_is_used_ten_times_over() -> None:
    """BC-016: a view of a view of a result, kept alone; also after the graph's end and `finalize`."""
    with chain(same, options={"memory_limit": str(16 * MIB)}) as graph:
        result = graph(np.arange(MIB // 8, dtype=np.int64).reshape(256, -1), timeout=20)
        kept = result[1:, ::2].T[3:]  # type: ignore[index]
        del result
        gc.collect()
        wanted = kept.copy()
        for noise in graph.map((np.full(MIB, n % 251, np.uint8) for n in range(160)), timeout=20):
            assert noise.nbytes == MIB  # type: ignore[attr-defined]
        np.testing.assert_array_equal(kept, wanted)
    np.testing.assert_array_equal(kept, wanted)
    df.finalize()
    np.testing.assert_array_equal(kept, wanted)


def test_views_a_node_keeps_in_itself_stay_what_they_were() -> None:
    """BC-016: in the executor too."""
    @df.pyflow
    class Keeper:
        def __init__(self):
            self.views = []

        @df.method()
        def look(self, x):
            if len(self.views) < 4:
                self.views.append(x[1:, ::2].T)
            return [(int(view.min()), int(view.max())) for view in self.views]

    node = Keeper.fnode()
    with df.FlowGraph([node.look(df.FlowData("x"))], {"memory_limit": str(16 * MIB)}) as graph:
        for n in range(120):
            seen = graph(np.full((256, 4096), n % 251, np.uint8), timeout=20)
        assert seen == [(n, n) for n in range(4)]


@pytest.mark.parametrize("mode", ["process", "inline"])
def test_one_reader_of_an_output_cannot_change_what_the_other_one_reads(mode: str) -> None:
    """BC-018: the writer gets an error that says what to do; the slow reader sees the original."""
    @df.pyflow
    def write(x):
        x += 1
        return x

    @df.pyflow
    def copy_and_write(x):
        x = x.copy()
        x += 1
        return x

    @df.pyflow
    def add_up(x):
        return float(x.sum())

    x = df.FlowData("x")
    data = same.fnode()(x)
    with df.FlowGraph([copy_and_write.fnode()(data), add_up.fnode()(data)], mode=mode) as graph:
        for n in range(20):
            changed, total = graph(np.full(10_000, n, np.float64), timeout=20)  # type: ignore[misc]
            assert (changed[0], total) == (n + 1, n * 10_000)
    with df.FlowGraph([write.fnode()(data), add_up.fnode()(data)], mode=mode) as graph:
        with pytest.raises(df.NodeError, match="read-only") as caught:
            graph(np.zeros(10_000), timeout=20)
        assert "copy" in (caught.value.hint or "")


def test_results_nobody_fetches_hold_feeding_up_and_the_error_says_so() -> None:
    """BC-019: unfetched results are bounded, and nothing is lost by waiting for them."""
    with chain(same, options={"max_unfetched": "20"}) as graph:
        with pytest.raises(df.QueueFullError, match="fetch results"):
            for n in range(200):
                graph.feed({"x": n}, timeout=0.3)
        fed = graph.counters.fed
        assert 20 <= fed < 100
        assert [graph.fetch(timeout=20) for _ in range(fed)] == list(range(fed))
        assert graph(7, timeout=20) == 7


def test_memory_stays_level_when_only_one_of_two_outputs_is_fetched() -> None:
    """BC-019."""
    @df.pyflow(num_returns=2)
    def both(x):
        return x.sum(), x

    outputs = both.fnode()(df.FlowData("x"))
    with df.FlowGraph(list(outputs), {"memory_limit": str(16 * MIB)}) as graph:  # type: ignore[arg-type]
        item = np.ones(MIB, np.uint8)
        for _ in range(100):
            graph.feed({"x": item})
            assert graph.fetch([0], timeout=20) == MIB
        check_idle(graph)
