"""An instance that is held up begins no call, and keeps what it has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dflow_core.message import encode
from dflow_core.testing.waiting import wait_until

FINISHED, SUSPENDED, RUNNING = 4, 3, 2
PLAIN, STREAM = ("pass", (0,), (0,)), ("forward", (0,), (0,), True)


def hold(rig, held: bool = True) -> None:
    assert rig.library.dflow_udf_hold(rig.udf, held) == 0
    if held:
        wait_until(lambda: is_quiet(rig))


def is_quiet(rig) -> bool:
    return rig.library.dflow_udf_is_quiet(rig.udf) == 1


def level(rig, queue: int) -> int:
    return rig.heap.table.level(rig.heap.table.context, queue)


@pytest.mark.parametrize("function", [PLAIN, STREAM], ids=["messages", "queues"])
def test_no_call_begins_and_what_came_is_kept(make_rig: Callable, function) -> None:
    rig = make_rig(function).start()
    rig.feed(1, np.zeros(1))
    assert rig.get().info.trans_id == 1
    for trans_id in (2, 4):
        hold(rig)
        for number in range(2):
            rig.feed(trans_id + number, np.zeros(1))
        assert rig.wait(RUNNING, 0.15) == RUNNING
        assert rig.is_silent() and is_quiet(rig) and level(rig, rig.ins[0]) >= 1
        hold(rig, False)
        assert [rig.get().info.trans_id for _ in range(2)] == [trans_id, trans_id + 1]
    hold(rig)
    rig.library.dflow_udf_stop(rig.udf)
    rig.wait_for(FINISHED)


def test_it_may_be_held_before_it_starts(make_rig: Callable) -> None:
    rig = make_rig("pass")
    assert rig.open() == 0 and rig.wait(0) == 1
    hold(rig)
    assert rig.library.dflow_udf_start(rig.udf) == 0
    rig.wait_for(RUNNING)
    rig.feed(1, np.zeros(1))
    assert rig.wait(RUNNING, 0.15) == RUNNING
    assert rig.is_silent() and is_quiet(rig) and level(rig, rig.ins[0]) == 1
    hold(rig, False)
    assert rig.get().info.trans_id == 1


def test_a_function_without_inputs_is_held_too(make_rig: Callable) -> None:
    rig = make_rig(("source", ()), inputs=0, attrs={"count": 0}).start()
    rig.wait_for(RUNNING)
    hold(rig)
    calls = rig.stats().calls
    assert rig.wait(RUNNING, 0.05) == RUNNING
    assert rig.stats().calls == calls
    hold(rig, False)
    wait_until(lambda: rig.stats().calls > calls)


@pytest.mark.parametrize("function", [PLAIN, STREAM], ids=["messages", "queues"])
def test_what_it_keeps_can_be_dropped_and_it_is_held_on(make_rig: Callable, function) -> None:
    rig = make_rig(function, ("echo", (1,), (1,)), inputs=2, outputs=2).start()
    rig.wait_for(RUNNING)
    for number in range(1, 4):
        hold(rig)
        rig.feed(number, np.zeros(1))
        assert rig.library.dflow_udf_suspend(rig.udf) == 0
        rig.wait_for(SUSPENDED)
        assert rig.library.dflow_udf_recover(rig.udf) == 0
        rig.wait_for(RUNNING)
        wait_until(lambda: is_quiet(rig))
        rig.feed(10 + number, np.zeros(1))
        assert rig.wait(RUNNING, 0.05) == RUNNING
        assert rig.is_silent()
        hold(rig, False)
        assert rig.get().info.trans_id == 10 + number


def test_a_wait_for_a_model_is_no_call_and_its_answer_waits(make_rig: Callable) -> None:
    rig = make_rig("invoke", invoked="model").start()
    rig.feed(7, np.zeros(1))
    asked = rig.heap.get(rig.fed)
    hold(rig)
    rig.heap.put(rig.fetched, encode(np.ones(1), asked.info))
    assert rig.wait(RUNNING, 0.05) == RUNNING
    assert rig.is_silent() and is_quiet(rig)
    hold(rig, False)
    assert rig.get().get_tensor().tolist() == [1.0]
