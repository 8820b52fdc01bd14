"""Several graphs and sessions in one process, and types of messages that travel with the functions that need them."""

from __future__ import annotations

import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.session import DFlowSession

LIMIT = 30.0


@df.pyflow
def work(x):
    return x * 2


def graph(session: DFlowSession | None = None, factor: int = 1, mode: str = "process") -> df.FlowGraph:
    """A graph `same` of nodes `first` and `second`, whatever else there is."""

    @df.pyflow
    def scale(x):
        return x * factor

    x = df.FlowData("x")
    return df.FlowGraph([scale.fnode("second")(work.fnode("first")(x))], name="same", session=session, mode=mode)


def pids(running: df.FlowGraph) -> list[int]:
    return [status.pid for status in running.running.deployment.status()]


def alive(numbers: list[int]) -> list[int]:
    return [pid for pid in numbers if pid and Path(f"/proc/{pid}").exists()]


def test_graphs_and_sessions_of_the_same_names_do_not_meet_and_one_ends_without_the_others():
    with DFlowSession({"queue_depth": "3"}) as shallow, DFlowSession({"queue_depth": "9"}) as deep:
        one, two, three = graph(shallow, 10), graph(deep, 100), graph(deep, 1000)
        for each in (one, two, three):
            each.start()
        depths = [{queue.depth for queue in each.running.deployment.plan.queues} for each in (one, two, three)]
        assert depths == [{3}, {9}, {9}]
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda each: list(each.map(range(30), timeout=LIMIT)), (one, two, three)))
        assert found == [[n * 2 * factor for n in range(30)] for factor in (10, 100, 1000)]
        goes = threading.Event()
        results: list[object] = []

        def work_on() -> None:
            for result in two.map(range(100), timeout=LIMIT):
                results.append(result)
                goes.set()

        worker = threading.Thread(target=work_on)
        worker.start()
        assert goes.wait(LIMIT)
        ended = pids(one) + pids(three)
        three.close()
        shallow.close()
        worker.join(LIMIT)
        assert results == [n * 200 for n in range(100)]
        assert not alive(ended)
        with pytest.raises(df.ClosedError):
            one(1)
        assert two(1, timeout=LIMIT) == 200
        ended = pids(two)
    assert not alive(ended)


class Point:
    """Travels as two doubles."""

    def __init__(self, x: float, y: float) -> None:
        self.x, self.y = x, y


@pytest.mark.parametrize("mode", ["inline", "process"])
def test_registered_types_travel_with_the_functions_that_need_them(mode):
    from dflow_core.message import msg_types

    msg_types.register(
        2000, Point, lambda point: struct.pack("<2d", point.x, point.y), lambda data: Point(*struct.unpack("<2d", data))
    )
    try:

        @df.pyflow
        def mirror(point):
            return Point(point.y, point.x)

        @df.pyflow
        def size(point):
            return np.hypot(point.x, point.y)

        mirrored = mirror.fnode()(df.FlowData("x"))
        with df.FlowGraph([mirrored, size.fnode()(mirrored)], mode=mode) as running:
            point, length = running(Point(3, 4), timeout=LIMIT)
        assert (point.x, point.y, float(length)) == (4, 3, 5)
    finally:
        msg_types.unregister(2000)
