"""BC-088: a node reloaded again and again while requests are in flight; nothing is lost, mixed or left behind."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.testing.waiting import wait_until
from tests.system.case_support import MIB, MODELS, check_idle, resident
from tests.system.update_support import adds

QUIET = {"output": "none"}
_ALLOWED = 4 * MIB  # beside what a first round of reloads leaves in caches of the allocator


@df.pyflow
def parts(x):
    """Three parts of each transaction, so that a version that changes between them would show."""
    for _ in range(3):
        yield x


@df.pyflow(gather=True)
def distinct(found):
    return np.array(sorted({int(part) for part in found}))


def gauges() -> tuple[int, int, int]:
    """Descriptors and threads of this process, and its descendants."""
    return len(os.listdir("/proc/self/fd")), threading.active_count(), len(descendants(os.getpid()))


def descendants(pid: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


class Requests:
    """Requests in flight at any time, each checked as it ends."""

    def __init__(self, graph: df.FlowGraph) -> None:
        self._graph = graph
        self._stop = threading.Event()
        self.count = 0
        self.wrong: list[object] = []
        self.first_of: dict[int, int] = {}
        self.last_of: dict[int, int] = {}
        self.thread = threading.Thread(target=self._run)

    def _items(self) -> Iterator[np.ndarray]:
        while not self._stop.is_set():
            yield np.array(0)

    def _run(self) -> None:
        try:
            last = 0
            for value, info in self._graph.map(self._items(), in_flight=8, with_info=True):
                version = info.versions.get("worker", 1)
                if value.tolist() != [version] or version < last or info.transaction_id != self.count + 1:
                    self.wrong.append((self.count, value, info))
                self.count, last = self.count + 1, version
                self.first_of.setdefault(version, self.count)
                self.last_of[version] = self.count
        except BaseException as error:
            self.wrong.append(error)

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more have ended."""
        goal = self.count + count
        wait_until(lambda: self.count >= goal or self.wrong, 60)
        assert not self.wrong, self.wrong[:3]

    @contextlib.contextmanager
    def flowing(self) -> Iterator[Requests]:
        """They come inside the block."""
        self.thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self.thread.join(60)
        assert not self.thread.is_alive() and not self.wrong, self.wrong[:3]


def reload_often(reloads: int) -> None:
    """Every request ends once, in order, with the answer of one version, the one it says; gauges stay as they are."""
    node = adds(1).fnode(name="worker", instances=2)
    with df.FlowGraph([distinct.fnode()(node(parts.fnode()(df.FlowData("x"))))], QUIET) as graph:
        requests, settled, firsts = Requests(graph), reloads // 4, {1: 1}
        with requests.flowing():
            for version in range(2, reloads + 2):
                requests.wait_for_more(2)
                firsts[version] = graph.update("worker", adds(version))
                if version == settled:
                    before, memory = gauges(), resident()
            requests.wait_for_more(20)
            wait_until(lambda: all(now <= then for now, then in zip(gauges(), before)))
            assert resident() < memory + _ALLOWED
        assert requests.first_of.keys() == firsts.keys()
        assert all(firsts[version] <= number for version, number in requests.first_of.items())
        assert all(number < firsts[version + 1] for version, number in requests.last_of.items() if version <= reloads)
        counters = graph.counters
        assert (counters.fed, counters.delivered, counters.late) == (requests.count, requests.count, 0)
        assert graph.versions == {"worker": reloads + 1}
        check_idle(graph)


def test_thirty_reloads_while_requests_are_in_flight():
    reload_often(30)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_reloads_while_requests_are_in_flight():
    reload_often(200)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_reloads_of_a_model_and_of_broken_ones_leave_nothing_behind(tmp_path):
    reload_models(200, tmp_path)


def test_reloads_of_a_model_and_of_broken_ones_leave_nothing_behind(tmp_path):
    reload_models(12, tmp_path)


def reload_models(reloads: int, folder: Path) -> None:
    """Every third file is broken; the one before goes on."""
    x, y = df.FlowData("x"), df.FlowData("y")
    good = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx")
    broken = folder / "broken.onnx"
    broken.write_bytes((MODELS / "add_float.onnx").read_bytes()[:40])
    with np.load(MODELS / "add_float.onnx.npz") as data:
        ones = np.ones(next(iter(data.values())).shape, np.float32)
    with df.FlowGraph([good.fnode(2, 1, "add")(x, y)], QUIET) as graph:
        done, answers = threading.Event(), []

        def ask() -> None:
            while not done.is_set():
                answers.append(bool(np.all(graph(ones, ones) == 2)))

        with asking(ask, done):
            for number in range(1, reloads + 1):
                if number % 3 == 0:
                    with pytest.raises(df.DflowError, match="broken.onnx"):
                        graph.update("add", df.GraphProcessPoint(df.Framework.ONNX, broken))
                else:
                    graph.update("add", df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx"))
                if number == reloads // 4:
                    before, memory = gauges(), resident()
            wait_until(lambda: all(now <= then for now, then in zip(gauges(), before)))
            assert resident() < memory + _ALLOWED
        assert answers and all(answers) and graph.versions == {"add": reloads - reloads // 3 + 1}
        check_idle(graph)


@contextlib.contextmanager
def asking(ask, done: threading.Event) -> Iterator[None]:
    """Requests one after the other inside the block."""
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(60)
