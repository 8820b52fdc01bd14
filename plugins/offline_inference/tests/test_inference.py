"""Arrays to results: handles, batches, priorities, dependencies, map."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

from dflow_core.errors import UsageError, WaitTimeoutError
from dflow_offline_inference import (
    ModelConfig,
    OfflineInference,
    RequestCancelledError,
    RequestFailedError,
    State,
)


def test_a_result_is_a_mapping_that_knows_its_request(start, make_puppet, rows) -> None:
    offline = start(make_puppet())
    handle = offline.infer("m", rows(3), context={"page": 1})
    result = handle.result(5)
    assert (result.request_id, result.context, dict(result)["y"].tolist()) == (handle.id, {"page": 1}, [[6, 6]])
    assert result[0] is result["y"] and len(result) == 1 and f"request {handle.id}" in repr(result)
    with pytest.raises(KeyError, match="there are y"):
        result["z"]
    assert handle.done() and handle.state is State.DONE and handle.exception() is None
    assert handle.history().startswith("waiting, ready")
    offline.close()
    assert handle.result() is result, "results outlive what made them"


def test_requests_that_wait_together_share_a_call(start, gated, rows, until) -> None:
    offline = start(gated, config={"batch": 4, "batch_wait": 60.0})
    handles = [offline.infer("m", rows(n)) for n in range(4)]
    assert gated.entered.acquire(timeout=5)
    handles += [offline.infer("m", rows(n)) for n in range(4, 8)]
    gated.gate.set()
    assert [handle.result(5)["y"][0, 0] for handle in handles] == [2 * n for n in range(8)]
    assert gated.calls == [((4, 2),), ((4, 2),)]


def test_a_batch_that_is_not_full_goes_after_its_time(start, make_puppet, rows) -> None:
    puppet = make_puppet()
    offline = start(puppet, config={"batch": 64, "batch_wait": 0.01})
    assert offline.infer("m", rows(1)).result(5)["y"].tolist() == [[2, 2]]
    assert puppet.calls == [((1, 2),)]


def test_closing_does_not_wait_for_batches_to_fill(start, make_puppet, rows) -> None:
    offline = start(make_puppet(), config={"batch": 64, "batch_wait": 3600.0})
    handles = [offline.infer("m", rows(n)) for n in range(3)]
    offline.close()
    assert [handle.result(0)["y"][0, 0] for handle in handles] == [0, 2, 4]


def test_different_shapes_run_apart_or_share_a_bucket(start, make_puppet, rows) -> None:
    apart, shared = make_puppet(), make_puppet(same_sizes="[[[0, 0], [0, 1]]]")
    widths = [3, 8, 5, 16, 2]
    offline = start(apart, config={"batch": 8, "batch_wait": 3600.0})
    handles = [offline.infer("m", rows(1, width)) for width in widths]
    offline.close()
    assert [handle.result(0)["y"].shape for handle in handles] == [(1, width) for width in widths]
    assert len(apart.calls) == 5
    offline = start(shared, config={"batch": 8, "batch_wait": 3600.0, "buckets": {"x": (1, 8)}})
    handles = [offline.infer("m", rows(1, width)) for width in widths]
    offline.close()
    assert [handle.result(0)["y"].tolist() for handle in handles] == [[[2.0] * width] for width in widths]
    assert sorted(shared.calls) == [((1, 16),), ((4, 8),)]


def test_one_bad_element_of_a_batch_fails_alone(start, make_puppet, rows) -> None:
    def picky(x):
        if (x == 13).any():
            raise ValueError("thirteen")
        return [x * 2]

    puppet = make_puppet(picky)
    offline = start(puppet, config={"batch": 4, "batch_wait": 3600.0})
    handles = [offline.infer("m", rows(n)) for n in (11, 12, 13, 14)]
    offline.close()
    errors = [handle.exception(0) for handle in handles]
    assert [handle.result(0)["y"][0, 0] for handle in handles if handle is not handles[2]] == [22, 24, 28]
    assert isinstance(errors[2], RequestFailedError) and errors.count(None) == 3
    assert "ValueError: thirteen" in str(errors[2]) and f"request {handles[2].id}" in str(errors[2])
    assert isinstance(errors[2].__cause__, ValueError)
    assert puppet.calls == [((4, 2),), *[((1, 2),)] * 4]


def test_a_model_that_mixes_rows_is_run_one_by_one(start, make_puppet, rows) -> None:
    puppet = make_puppet(lambda x: [x[:1] * 2])
    offline = start(puppet, config={"batch": 4, "batch_wait": 0.0})
    for _ in range(3):
        assert [r["y"][0, 0] for r in offline.map("m", [rows(n) for n in range(6)])] == [2 * n for n in range(6)]
    assert sum(call != ((1, 2),) for call in puppet.calls) == 1


def test_priorities_go_first_and_equals_in_order(start, gated, rows) -> None:
    offline = start(gated)
    first = offline.infer("m", rows(0))
    assert gated.entered.acquire(timeout=5)
    held = offline.infer("m", rows(1))  # takes the other slot
    asked = [(2, 0), (3, 5), (4, 0), (5, 5), (6, -1)]
    handles = [offline.infer("m", rows(value), priority=priority) for value, priority in asked]
    gated.gate.set()
    for handle in [first, held, *handles]:
        handle.result(5)
    assert gated.order == [0, 1, 3, 5, 2, 4, 6]


def test_a_request_waits_for_those_it_depends_on(start, make_puppet, gated, rows) -> None:
    offline = start({"slow": gated, "fast": make_puppet()})
    before = offline.infer("slow", rows(1))
    after = offline.infer("fast", rows(2), after=[before])
    third = offline.infer("fast", rows(3), after=[after.id, before])
    assert gated.entered.acquire(timeout=5)
    assert "waiting for a request it depends on" in after.status().text
    assert (after.status().slot, after.status().dependencies) == (True, False)
    gated.gate.set()
    assert third.result(5)["y"][0, 0] == 6
    assert before.done() and after.done()


def test_chains_run_side_by_side_each_in_order(start, make_puppet, rows) -> None:
    puppet = make_puppet(depth=2)
    offline = start(puppet, config={"instances": 2})
    handles = [offline.infer("m", rows(100 * (n % 3) + n), chain=n % 3) for n in range(90)]
    for handle in handles:
        handle.result(5)
    for chain in range(3):
        mine = [value for value in puppet.order if value // 100 == chain]
        assert mine == sorted(mine) and len(mine) == 30


def test_status_says_what_is_waited_for(start, gated, rows) -> None:
    offline = start(gated, memory={"cpu:0": 1000})
    running = offline.infer("m", rows(1, width=100))  # 400 bytes in, 4 out, as far as is known
    assert gated.entered.acquire(timeout=5)
    waiting = offline.infer("m", rows(2, width=200))
    status = waiting.status()
    assert (status.state, status.slot, status.memory, status.dependencies) == (State.WAITING, True, False, True)
    assert status.text.startswith("waiting for memory on device cpu:0 (needs 804 bytes")
    assert running.status().text == "running"
    gated.gate.set()
    assert waiting.result(5)["y"].shape == (1, 200)
    assert offline.overview().memory["cpu:0"][0] == 0


def test_map_keeps_order_or_gives_what_is_ready(start, make_puppet, rows) -> None:
    offline = start(make_puppet(), config={"batch": 3, "instances": 2})
    values = list(range(50))
    assert [r["y"][0, 0] for r in offline.map("m", map(rows, values))] == [2 * v for v in values]
    found = [r["y"][0, 0] for r in offline.map("m", map(rows, values), ordered=False)]
    assert sorted(found) == [2 * v for v in values]


@pytest.mark.parametrize("ordered", [True, False])
def test_map_takes_no_more_items_than_its_window(start, make_puppet, rows, ordered: bool) -> None:
    offline = start(make_puppet())
    taken = []

    def items():
        for number in range(40):
            taken.append(number)
            yield rows(number)

    for count, _ in enumerate(offline.map("m", items(), window=5, ordered=ordered), 1):
        assert len(taken) <= count + 5
    assert len(taken) == 40


@pytest.mark.parametrize(("width", "expected"), [(2, 64), (1 << 20, 4)])
def test_map_keeps_more_small_items_under_way_than_large_ones(start, gated, rows, width: int, expected: int) -> None:
    """64 small ones; of large ones those that the slots need, and whatever 4 MiB hold."""
    offline = start(gated)
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield rows(number, width=width)

    results = offline.map("m", items())
    first = threading.Thread(target=next, args=(results,))
    first.start()
    assert gated.entered.acquire(timeout=5)
    gated.gate.set()
    first.join(5)
    assert len(taken) == expected
    results.close()


def test_map_raises_or_returns_errors_at_their_turn(start, make_puppet, rows) -> None:
    def picky(x):
        if x[0, 0] == 2:
            raise ValueError("two")
        return [x]

    offline = start(make_puppet(picky))
    items = [rows(1), rows(2), np.zeros((1, 1, 1), "f4"), rows(3)]
    found = list(offline.map("m", items, errors="return"))
    assert [type(one).__name__ for one in found] == ["Result", "RequestFailedError", "TensorError", "Result"]
    with pytest.raises(RequestFailedError):
        list(offline.map("m", items))


def test_a_map_that_is_left_cancels_what_it_asked_for(start, gated, rows, until) -> None:
    offline = start(gated)
    results = offline.map("m", [rows(n) for n in range(100)], window=50)
    other = threading.Thread(target=lambda: next(results))
    other.start()
    assert gated.entered.acquire(timeout=5)
    gated.gate.set()
    other.join(5)
    results.close()
    until(lambda: offline.overview().open == 0)
    assert len(gated.calls) < 100


def test_results_can_be_awaited(start, make_puppet, rows) -> None:
    offline = start(make_puppet(), config={"batch": 4})

    async def all_of_them():
        return await asyncio.gather(*(ask(n) for n in range(20)))

    async def ask(number: int):
        return (await offline.infer("m", rows(number)))["y"][0, 0]

    assert asyncio.run(all_of_them()) == [2 * n for n in range(20)]


def test_a_cancelled_request_raises_when_awaited(start, gated, rows) -> None:
    offline = start(gated)

    async def cancelled():
        handle = offline.infer("m", rows(1))
        handle.cancel()
        await handle

    with pytest.raises(RequestCancelledError):
        asyncio.run(cancelled())


def test_callbacks_get_the_handle_once_also_late_ones(start, make_puppet, rows, until) -> None:
    offline = start(make_puppet())
    seen: list[int] = []
    handle = offline.infer("m", rows(1), callback=lambda h: seen.append(h.id))
    handle.result(5)
    until(lambda: seen)
    handle.add_done_callback(lambda h: seen.append(-h.id))
    assert seen == [handle.id, -handle.id]


def test_a_callback_may_ask_for_more(start, make_puppet, rows, until) -> None:
    offline = start({"a": make_puppet(), "b": make_puppet(lambda x: [x + 1])})
    ends: list[float] = []

    def onwards(handle) -> None:
        second = offline.infer("b", handle.result()["y"])
        second.add_done_callback(lambda h: ends.append(float(h.result()["y"][0, 0])))

    for number in range(20):
        offline.infer("a", rows(number), callback=onwards)
    until(lambda: len(ends) == 20)
    assert sorted(ends) == [2 * n + 1 for n in range(20)]


def test_a_cancel_wins_before_the_end_and_loses_after(start, gated, rows) -> None:
    offline = start(gated)
    running, ready = offline.infer("m", rows(1)), offline.infer("m", rows(2))
    assert gated.entered.acquire(timeout=5)
    waiting = offline.infer("m", rows(3))
    for handle in (waiting, ready, running):
        assert handle.cancel() and not handle.cancel()
        with pytest.raises(RequestCancelledError, match=f"request {handle.id}"):
            handle.result(0)
    gated.gate.set()
    last = offline.infer("m", rows(4))
    assert last.result(5)["y"][0, 0] == 8 and not last.cancel()
    assert gated.order == [1, 4], "what was cancelled before it ran never ran"


def test_a_wait_has_a_limit_and_says_where_the_request_is(start, gated, rows) -> None:
    offline = start(gated)
    handle = offline.infer("m", rows(1))
    assert gated.entered.acquire(timeout=5)
    with pytest.raises(WaitTimeoutError, match=f"request {handle.id} .* running"):
        handle.result(0.01)
    assert isinstance(handle.exception, object) and not handle.done()


def test_several_calls_of_one_worker_are_in_flight(start, make_puppet, rows) -> None:
    puppet = make_puppet(depth=3)
    offline = start(puppet, config={"batch": 2})
    assert [r["y"][0, 0] for r in offline.map("m", map(rows, range(60)))] == [2 * n for n in range(60)]
    assert puppet.most == 1 and len(puppet.threads) == 1


def test_a_result_never_collected_is_let_go(start, make_puppet, rows, until) -> None:
    offline = start(make_puppet())
    array = rows(1, width=1000)
    gone = weakref.ref(array)
    offline.infer("m", array)
    del array
    until(lambda: offline.overview().open == 0)
    until(lambda: gone() is None)


def test_a_waiting_request_takes_less_than_two_kilobytes_in_all(start, gated, rows) -> None:
    offline = start(gated, max_waiting=5_000)
    array = rows(1)
    offline.infer("m", array)
    tracemalloc.start()
    try:
        handles = [offline.infer("m", array, priority=n % 7) for n in range(4_000)]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert offline.overview().waiting >= 3_998
    assert size / 4_000 <= 2048
    for handle in handles:
        handle.cancel()


def test_specs_and_overview(start, make_puppet) -> None:
    offline = start({"a": make_puppet(), "b": make_puppet()}, config={"instances": 2, "batch": 4})
    inputs, outputs = offline.specs("a")
    assert [spec.name for spec in (*inputs, *outputs)] == ["x", "y"]
    assert offline.overview().slots == {"a": (0, 16), "b": (0, 16)}
    with pytest.raises(UsageError, match="no model is called 'c'"):
        offline.specs("c")


def test_real_models_give_the_answers_of_their_files(models) -> None:
    with OfflineInference({
        "net": ModelConfig(models / "conv_small.onnx", batch=4, instances=2), "two": models / "two_outputs.onnx",
        "pb": str(models / "add.pb"),
    }) as offline:
        for name, file in (("net", "conv_small.onnx"), ("two", "two_outputs.onnx")):
            with np.load(models / f"{file}.npz") as known:
                inputs = {key[3:]: known[key] for key in known.files if key.startswith("in_")}
                result = offline.infer(name, inputs).result(30)
                for key in known.files:
                    if key.startswith("out_"):
                        np.testing.assert_allclose(result[key[4:]], known[key], atol=1e-5)
        names = [spec.name for spec in offline.specs("pb")[0]]
        summed = offline.infer("pb", {n: np.ones(3, np.float32) for n in names}).result(30)
        assert summed[0].tolist() == [2, 2, 2]


def test_a_bucket_of_a_real_model_is_cut_off_again(models) -> None:
    """The model file says which sizes are the same, and so which padding to cut."""
    config = ModelConfig(models / "add_dynamic.onnx", batch=16, batch_wait=60.0)
    with OfflineInference({"add": config}) as offline:
        handles = [offline.infer("add", (np.full(n, n, "f4"), np.ones(n, "f4"))) for n in (1, 2, 3)]
        offline.close()
    assert [handle.result()["Y"].tolist() for handle in handles] == [[2], [3, 3], [4, 4, 4]]
