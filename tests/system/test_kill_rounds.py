"""SIGKILL of every process of a running graph at random moments: nothing hangs, is left behind or goes uncounted.

The short form runs in every test run; `pytest -m slow tests/system/test_kill_rounds.py` runs twenty times as many
rounds.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import dflow_core as df
from dflow_core.testing.waiting import comes_true, wait_until

SEED = 20261130


@df.pyflow(instances=2, restarts=1_000_000)
def scale(x):
    return x * 2


@df.pyflow(restarts=1_000_000)
def spread(x):
    yield from np.array_split(x, 3)


@df.pyflow(gather=True, restarts=1_000_000)
def collect(parts):
    return np.concatenate(parts)


@df.pyflow(restarts=1_000_000)
def join(a, b):
    return a + b


def build() -> df.FlowGraph:
    """source -> scale x2 -> join; source -> spread -> collect -> join."""
    x = df.FlowData("x")
    return df.FlowGraph([join.fnode()(scale.fnode()(x), collect.fnode()(spread.fnode()(x)))], {"stop_timeout": "3"})


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> list[int]:
    """Every living descendant of a process."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    parents.setdefault(int(stat.read().rpartition(")")[2].split()[1]), []).append(int(entry))
            except (FileNotFoundError, ProcessLookupError):
                continue
    found, pending = [], [pid]
    while pending:
        children = parents.get(pending.pop(), [])
        found += children
        pending += children
    return found


class Killer:
    """Kills a random executor at random moments from a thread of its own."""

    def __init__(self, graph: df.FlowGraph, rounds: int, seed: int) -> None:
        self.kills = 0
        self._graph = graph
        self._rounds = rounds
        self._random = random.Random(seed)
        self._pause = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pause.set()
        self._thread.join()

    @property
    def is_done(self) -> bool:
        """Whether all rounds are over."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        while self.kills < self._rounds and not self._pause.wait(self._random.uniform(0, 0.06)):
            running = [s.pid for s in self._graph.running.deployment.status() if s.state == "running" and s.pid]  # type: ignore[union-attr]
            if running:
                os.kill(self._random.choice(running), signal.SIGKILL)
                self.kills += 1


def run_rounds(rounds: int, seed: int) -> None:
    """Stream items while executors are killed; check every result and every count."""
    def items(killer: Killer) -> Iterator[np.ndarray]:
        n = 0
        while not killer.is_done or n < 20:
            yield np.full(30, n, np.int64)
            n += 1

    good = lost = 0
    with build() as graph:
        graph(np.zeros(30, np.int64), timeout=30)
        with Killer(graph, rounds, seed) as killer:
            for n, result in enumerate(graph.map(items(killer), errors="return", in_flight=8, timeout=40)):
                if isinstance(result, df.DflowError):
                    assert isinstance(result, df.InstanceLostError), result
                    lost += 1
                else:
                    np.testing.assert_array_equal(result, np.full(30, 3 * n))  # type: ignore[arg-type]
                    good += 1
            assert killer.kills == rounds
        c = graph.counters
        assert c.fed == c.delivered + c.failed == good + lost + 1 and c.dropped == 0
        assert graph.running.client.in_flight == 0
        np.testing.assert_array_equal(graph(np.ones(30, np.int64), timeout=30), np.full(30, 3))  # type: ignore[arg-type]
        group = graph.running.deployment.group  # type: ignore[union-attr]
        del result
        assert comes_true(lambda: group.stats().blocks_in_use == 0), group.stats()


@pytest.mark.timeout(120)
def test_random_kills_of_executors_lose_only_what_they_held() -> None:
    """BC-004, BC-005, BC-061."""
    df.finalize()
    files, others = len(os.listdir("/proc/self/fd")), set(descendants(os.getpid()))
    run_rounds(150, SEED)
    df.finalize()
    wait_until(lambda: set(descendants(os.getpid())) <= others)
    assert len(os.listdir("/proc/self/fd")) <= files


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_random_kills_of_executors_long_form() -> None:
    for seed in range(20):
        run_rounds(150, SEED + seed)
    df.finalize()


def test_graph_survives_the_end_of_the_template_process() -> None:
    """The template takes its children along; they come back by the plain way of starting."""
    df.finalize()
    others = set(descendants(os.getpid()))
    with build() as graph:
        graph(np.zeros(30, np.int64), timeout=30)
        executors = {s.pid for s in graph.running.deployment.status()}  # type: ignore[union-attr]
        template = [pid for pid in descendants(os.getpid()) if pid not in executors | others]
        for pid in template:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(is_alive(pid) for pid in template))

        def works() -> bool:
            try:
                graph(np.ones(30, np.int64), timeout=30)
            except df.PeerGoneError:
                return False
            return True

        wait_until(works, 40)
    df.finalize()
    wait_until(lambda: set(descendants(os.getpid())) <= others)


APPLICATION = """
import sys, numpy as np
from tests.system.test_kill_rounds import build
with build() as graph:
    print("up", flush=True)
    for result in graph.map((np.full(30, n) for n in range(10**9)), errors="return", in_flight=8):
        pass
"""


def kill_application(delay: float, whole_group: bool) -> None:
    """Start an application, kill it after a while, and see that nothing of it stays."""
    shm_before = set(os.listdir("/dev/shm"))
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    app = subprocess.Popen([sys.executable, "-c", APPLICATION], cwd=root, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": root})
    assert app.stdout is not None
    if delay >= 0.5:
        app.stdout.readline()
    threading.Event().wait(delay % 0.5)
    family = descendants(app.pid)
    for pid in (family if whole_group else []):
        os.kill(pid, signal.SIGKILL)
    app.kill()
    app.wait()
    app.stdout.close()
    wait_until(lambda: not any(is_alive(pid) for pid in family))
    assert set(os.listdir("/dev/shm")) <= shm_before


@pytest.mark.timeout(120)
def test_killed_application_takes_everything_along_at_any_moment() -> None:
    """BC-001, BC-002: during start-up and in full run, alone and all at once."""
    generator = random.Random(SEED)
    for n in range(12):
        kill_application(generator.uniform(0, 1.0), whole_group=n % 4 == 3)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_killed_application_long_form() -> None:
    generator = random.Random(SEED + 1)
    for n in range(400):
        kill_application(generator.uniform(0, 1.0), whole_group=n % 4 == 3)


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_ends_an_application_and_leaves_nothing(presses: int) -> None:
    """BC-064."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    app = subprocess.Popen([sys.executable, "-c", APPLICATION], cwd=root, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": root})
    assert app.stdout is not None
    app.stdout.readline()
    family = descendants(app.pid)
    for _ in range(presses):
        app.send_signal(signal.SIGINT)
    assert app.wait(timeout=20) != 0
    app.stdout.close()
    wait_until(lambda: not any(is_alive(pid) for pid in family))
