"""Graphs of functions and models run, in processes and inline, with the same results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df

MODELS = Path(__file__).parents[1] / "data" / "models"


@pytest.fixture(params=["process", "inline"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both ways to run."""
    return str(request.param)


@df.pyflow
def double(x):
    return x * 2


@df.pyflow
def add(a, b):
    return a + b


@df.pyflow(num_returns=2)
def split_sign(x):
    return np.maximum(x, 0), np.minimum(x, 0)


@df.pyflow
def count_up(n):
    yield from range(int(n))


@df.pyflow(gather=True)
def total(parts):
    return sum(parts)


@df.pyflow
class Counter:
    def __init__(self, start=0):
        self.value = start

    @df.method()
    def step(self, x):
        self.value += 1
        return self.value

    @df.method()
    def negate(self, y):
        return -y


def test_one_function(mode: str) -> None:
    x = df.FlowData("x")
    with df.FlowGraph([double.fnode()(x)], mode=mode) as graph:
        assert graph(21) == 42
        np.testing.assert_array_equal(graph(np.arange(4)), [0, 2, 4, 6])  # type: ignore[arg-type]


def test_diamond_pairs_both_branches_of_each_transaction(mode: str) -> None:
    """BC-048."""
    x = df.FlowData("x")
    left, right = double.fnode("left")(x), double.fnode("right")(x)
    with df.FlowGraph([add.fnode()(left, right)], mode=mode) as graph:
        assert list(graph.map(range(50))) == [4 * n for n in range(50)]


def test_several_outputs_come_as_a_tuple_in_the_order_asked_for(mode: str) -> None:
    x = df.FlowData("x")
    node = split_sign.fnode()
    positive, negative = node(x)
    with df.FlowGraph([negative, positive], mode=mode) as graph:
        low, high = graph(np.array([-1.0, 2.0]))  # type: ignore[misc]
        assert low.tolist() == [-1, 0] and high.tolist() == [0, 2]


def test_class_keeps_its_state_and_has_one_port_set_per_method(mode: str) -> None:
    x, y = df.FlowData("x"), df.FlowData("y")
    node = Counter.fnode(10)
    with df.FlowGraph([node.step(x), node.negate(y)], mode=mode) as graph:
        assert [graph(0, 5) for _ in range(3)] == [(11, -5), (12, -5), (13, -5)]


def test_generator_streams_several_results_for_one_input(mode: str) -> None:
    n = df.FlowData("n")
    with df.FlowGraph([double.fnode()(count_up.fnode()(n))], mode=mode) as graph:
        assert graph(3) == [0, 2, 4]
        assert graph(1) == 0
        with pytest.raises(df.DroppedError):
            graph(0)
        assert list(graph.map([2, 3])) == [0, 2, 0, 2, 4]


def test_gathering_function_gets_all_parts_of_a_transaction(mode: str) -> None:
    n = df.FlowData("n")
    parts = double.fnode(instances=2)(count_up.fnode()(n))
    with df.FlowGraph([total.fnode()(parts)], mode=mode) as graph:
        assert [graph(k) for k in (0, 1, 5)] == [0, 0, 20]
        assert list(graph.map(range(20))) == [k * (k - 1) for k in range(20)]


def test_feed_and_fetch_carry_times_flags_and_user_data(mode: str) -> None:
    x = df.FlowData("x")
    with df.FlowGraph([double.fnode()(x)], mode=mode) as graph:
        info = df.FeedInfo(start_time=1, end_time=2, flow_flags=df.Flag.SEG, transaction_id=70, user_data=b"mine")
        assert graph.feed({x: 5}, info=info) == 70
        value, back = graph.fetch(with_info=True, timeout=20)  # type: ignore[misc]
        assert value == 10
        assert (back.start_time, back.end_time, back.flow_flags, back.transaction_id) == (1, 2, 2, 70)
        assert back.user_data.rstrip(b"\0") == b"mine"


def test_partial_feeds_meet_by_transaction(mode: str) -> None:
    a, b = df.FlowData("a"), df.FlowData("b")
    with df.FlowGraph([add.fnode()(a, b)], mode=mode) as graph:
        for n in range(3):
            graph.feed({"a": n}, partial=True)
        for n in range(3):
            graph.feed({"b": 10 * n}, partial=True)
        assert [graph.fetch(timeout=20) for _ in range(3)] == [0, 11, 22]


def test_end_of_sequence_reaches_the_caller_as_a_null_message(mode: str) -> None:
    x = df.FlowData("x")

    @df.pyflow
    def is_null(value):
        return value is None

    with df.FlowGraph([is_null.fnode()(x)], mode=mode) as graph:
        graph.feed({}, info=df.FeedInfo(flow_flags=df.Flag.EOS))
        value, info = graph.fetch(with_info=True, timeout=20)  # type: ignore[misc]
        assert value is True and info.flow_flags & df.Flag.EOS


def test_fetch_of_chosen_outputs_lets_the_others_go(mode: str) -> None:
    """BC-019."""
    x = df.FlowData("x")
    node = split_sign.fnode()
    outs = node(x)
    with df.FlowGraph(list(outs), mode=mode) as graph:  # type: ignore[arg-type]
        for _ in range(200):
            graph.feed({x: np.ones(2000)})
            np.testing.assert_array_equal(graph.fetch([1], timeout=20), np.zeros(2000))  # type: ignore[arg-type]


def test_ordered_map_keeps_order_with_several_instances() -> None:
    """BC-049."""
    x = df.FlowData("x")

    @df.pyflow(instances=3)
    def jitter(n):
        import time

        time.sleep(0.002 * (n % 3))
        return n

    with df.FlowGraph([jitter.fnode()(x)]) as graph:
        assert list(graph.map(range(60))) == list(range(60))
        assert sorted(graph.map(range(60), ordered=False)) == list(range(60))  # type: ignore[type-var]


def test_join_with_several_instances_still_pairs_by_transaction() -> None:
    x = df.FlowData("x")
    join = add.fnode(instances=2)
    with df.FlowGraph([join(double.fnode("a")(x), double.fnode("b", instances=2)(x))]) as graph:
        assert list(graph.map(range(100))) == [4 * n for n in range(100)]


def test_nested_graph_runs_as_one_node(mode: str) -> None:
    inner_x = df.FlowData("inner")
    inner = df.FlowGraph([double.fnode()(double.fnode()(inner_x))], name="inner")
    x = df.FlowData("x")
    node = df.FlowGraphProcessPoint(inner).fnode(1, 1, "four_times")
    with df.FlowGraph([add.fnode()(node(x), x)], mode=mode) as graph:
        assert graph(3) == 15


@pytest.mark.parametrize(("file", "framework"), [
    ("add_float.onnx", "ONNX"), ("two_outputs.onnx", "ONNX"), ("conv_small.onnx", "ONNX"), ("nonzero.onnx", "ONNX"),
    ("conv_small.pb", "TENSORFLOW"), ("two_outputs.pb", "TENSORFLOW"), ("add.pb", "TENSORFLOW"),
])
def test_models_give_the_reference_answers(mode: str, file: str, framework: str) -> None:
    reference = np.load(MODELS / f"{file}.npz")
    feeds = [reference[name] for name in reference.files if name.startswith("in_")]
    wanted = [reference[name] for name in reference.files if name.startswith("out_")]
    data = [df.FlowData(f"input{n}") for n in range(len(feeds))]
    node = df.GraphProcessPoint(df.Framework[framework], MODELS / file).fnode(len(feeds), len(wanted))
    outputs = node(*data)
    with df.FlowGraph(outputs if isinstance(outputs, tuple) else [outputs], mode=mode) as graph:  # type: ignore[arg-type, list-item]
        results = graph(*feeds)
        results = results if isinstance(results, tuple) else (results,)
        for got, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-5, rtol=0)


def test_two_models_in_a_row_with_a_function_between(mode: str) -> None:
    body = np.load(MODELS / "chain_body.onnx.npz")
    head = np.load(MODELS / "chain_head.onnx.npz")

    @df.pyflow
    def check(features):
        assert features.flags.writeable is False
        return features

    image = df.FlowData("image")
    first = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "chain_body.onnx").fnode(1, 1)
    second = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "chain_head.onnx").fnode(1, 1)
    with df.FlowGraph([second(check.fnode()(first(image)))], mode=mode) as graph:
        result = graph(body["in_image"])
        np.testing.assert_allclose(result, head["out_vector"], atol=1e-4)  # type: ignore[arg-type]


def test_count_batch_puts_transactions_together_and_ends_all_of_them(mode: str) -> None:
    x = df.FlowData("x")

    @df.pyflow
    def shape(batch):
        return batch.shape

    node = shape.fnode()
    point = node.point
    node.map_input(0, point, 0, [df.CountBatch(batch_size=4, timeout=0.2)])
    node(x)
    with df.FlowGraph([node.outputs[0]], mode=mode) as graph:
        results = list(graph.map([np.zeros(3)] * 10, in_flight=10, timeout=20))
        assert results == [(4, 3), (4, 3), (2, 3)]
        assert (graph.counters.fed, graph.counters.delivered, graph.counters.dropped) == (10, 3, 7)


def test_results_own_their_memory_and_outlive_the_graph(mode: str) -> None:
    """BC-016."""
    x = df.FlowData("x")
    with df.FlowGraph([double.fnode()(x)], mode=mode) as graph:
        kept = [graph(np.full(1000, n)) for n in range(20)]
        part = kept[3][1:, ...][::2]  # type: ignore[index]
        writable = graph(np.zeros(3), copy=True)
        writable[0] = 1  # type: ignore[index]
        with pytest.raises(ValueError, match="read-only"):
            kept[0][0] = 5  # type: ignore[index]
    assert all((array == 2 * n).all() for n, array in enumerate(kept))  # type: ignore[attr-defined]
    assert (part == 6).all()


def test_callers_array_may_be_changed_right_after_feeding(mode: str) -> None:
    """BC-018."""
    x = df.FlowData("x")
    array = np.zeros(1000)
    with df.FlowGraph([double.fnode()(x)], mode=mode) as graph:
        for n in range(5):
            array[:] = n
            graph.feed({x: array})
            array[:] = 99
        assert [graph.fetch(timeout=20)[0] for _ in range(5)] == [0, 2, 4, 6, 8]  # type: ignore[index]


def test_allocated_tensor_is_fed_in_place() -> None:
    x = df.FlowData("x")
    with df.FlowGraph([double.fnode()(x)]) as graph:
        block = graph.alloc_tensor((4, 4), np.float32)
        block[:] = 1.5
        assert (graph(block) == 3).all()  # type: ignore[attr-defined]
        assert not block.flags.writeable
        other = df.alloc_tensor((2,), np.int32)
        other[:] = 4
        assert graph(other).tolist() == [8, 8]  # type: ignore[attr-defined]


def test_results_work_with_dlpack() -> None:
    x = df.FlowData("x")
    with df.FlowGraph([double.fnode()(x)]) as graph:
        result = graph(np.arange(3.0), copy=True)
        np.testing.assert_array_equal(np.from_dlpack(result), [0, 2, 4])  # type: ignore[arg-type]


def test_async_forms(mode: str) -> None:
    x = df.FlowData("x")

    async def main() -> None:
        with df.FlowGraph([double.fnode()(x)], mode=mode) as graph:
            if mode == "process":
                assert await asyncio.gather(*(graph.acall(n) for n in range(10))) == [2 * n for n in range(10)]
            assert await graph.acall(4) == 8
            await graph.afeed({x: 5})
            assert await graph.afetch(timeout=20) == 10
            assert [r async for r in graph.amap(range(5))] == [0, 2, 4, 6, 8]

    asyncio.run(main())


def test_map_is_lazy_and_can_be_left_early(mode: str) -> None:
    x = df.FlowData("x")
    taken = []

    def items() -> Iterator[int]:
        for n in range(1000):
            taken.append(n)
            yield n

    with df.FlowGraph([double.fnode()(x)], mode=mode) as graph:
        for result in graph.map(items(), in_flight=4):
            if result == 10:
                break
        assert len(taken) < 20
        assert graph(1) == 2


def test_progress_counts_finished_items(mode: str) -> None:
    x = df.FlowData("x")
    seen: list[int] = []
    with df.FlowGraph([double.fnode()(x)], mode=mode) as graph:
        list(graph.map(range(5), progress=seen.append))
    assert seen == [1, 2, 3, 4, 5]


def test_several_graphs_in_one_process() -> None:
    x = df.FlowData("x")
    with df.FlowGraph([double.fnode()(x)], name="one") as one, df.FlowGraph([double.fnode()(x)], name="two") as two:
        assert (one(1), two(2)) == (2, 4)


def test_graph_can_be_started_again() -> None:
    x = df.FlowData("x")
    graph = df.FlowGraph([double.fnode()(x)])
    for n in range(3):
        with graph:
            assert graph(n) == 2 * n
    with pytest.raises(df.ClosedError, match="was closed"):
        graph(1)
