"""What fits a model, what can share a call, and how rows get into a batch and out of it again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_core.errors import OptionError, RunError, TensorError
from dflow_core.types import DataType, TensorSpec
from dflow_offline_inference.engine import Batch, Buffers, ModelShapes
from dflow_offline_inference.requests import Request

F = DataType.FLOAT
X, Y = TensorSpec(F, (-1, -1), "x"), TensorSpec(F, (-1, -1), "y")


def shapes(*inputs: TensorSpec, outputs: tuple[TensorSpec, ...] = (Y,), **more) -> ModelShapes:
    return ModelShapes("net", inputs or (X,), outputs, more.pop("same", ()), **more)


def ones(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.ones(shape, dtype)


def requests_of(made: ModelShapes, *arrays: np.ndarray) -> Batch:
    fits = [made.fit((array,)) for array in arrays]
    requests = [Request(number, 0.0, 0, (), fit.rows, fit.group, fit.padded) for number, fit in enumerate(fits, 1)]
    return Batch(requests, [(array,) for array in arrays], sum(fit.rows for fit in fits))


@pytest.mark.parametrize("given_as", [lambda a, b: {"x": a, "z": b}, lambda a, b: (a, b), lambda a, b: [a, b]])
def test_inputs_may_be_named_or_in_order(given_as) -> None:
    made = shapes(X, TensorSpec(F, (-1,), "z"))
    a, b = ones(1, 2), ones(1)
    first, second = made.arrays(given_as(a, b))
    assert first is a and second is b


def test_the_only_input_may_come_alone() -> None:
    array = ones(1, 2)
    assert shapes().arrays(array)[0] is array
    assert shapes().arrays({"x": [[1.0, 2.0]]})[0].shape == (1, 2)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "no input 'x'"),
        ({"x": ones(1, 2), "y": ones(1)}, "'y' is none of its inputs"),
        ({"X": ones(1, 2)}, "no input 'x'; 'X' is none of its inputs"),
        ((ones(1, 2), ones(1, 2)), "got 2 arrays"),
        ("text", "got a str"),
        ({"x": object()}, "input 'x' is a object, not an array"),
    ],
)
def test_what_does_not_fit_by_name_is_told(values: object, text: str) -> None:
    with pytest.raises(TensorError, match=text) as caught:
        shapes().arrays(values)
    assert caught.value.hint


def test_all_misfits_of_a_request_are_told_at_once() -> None:
    made = shapes(X, TensorSpec(DataType.INT32, (-1, 3), "z"))
    with pytest.raises(TensorError) as caught:
        made.fit((ones(2, 2, 2), ones(1, 3)))
    assert "input 'x'" in str(caught.value) and "rank differs" in str(caught.value)
    assert "input 'z'" in str(caught.value) and "dtype differs" in str(caught.value)
    with pytest.raises(TensorError, match="complex64"):
        shapes().fit((ones(1, 2, dtype="c8"),))


def test_equal_shapes_share_a_call_and_others_do_not() -> None:
    made = shapes(batch=4)
    keys = {made.fit((ones(n, w),)).group for n, w in ((1, 2), (2, 2), (1, 3))}
    assert len(keys) == 2 and None not in keys
    assert made.fit((ones(5, 2),)).group is None, "more rows than a batch has run alone"
    assert made.fit((ones(0, 2),)).group is None
    assert shapes().fit((ones(1, 2),)).group is None


def test_byte_orders_share_a_call() -> None:
    made = shapes(batch=4)
    assert made.fit((ones(1, 2, dtype=">f4"),)).group == made.fit((ones(1, 2),)).group


def test_a_bucket_lets_different_shapes_share_a_call() -> None:
    made = shapes(batch=4, buckets={"x": (1, 8)})
    assert made.fit((ones(1, 3),)).group == made.fit((ones(1, 8),)).group
    assert made.fit((ones(1, 9),)).group != made.fit((ones(1, 8),)).group
    assert made.fit((ones(1, 3),)).bytes == 8 * 4 + 4


@pytest.mark.parametrize(
    ("buckets", "text"),
    [({"z": (1, 8)}, "none of its inputs"), ({"x": (8,)}, "which is"), ({"x": (1, 0)}, "multiples of 0")],
)
def test_buckets_that_do_not_fit_are_refused(buckets, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        shapes(buckets=buckets)


def test_a_fixed_dimension_cannot_be_rounded() -> None:
    with pytest.raises(OptionError, match="cannot be rounded"):
        shapes(TensorSpec(F, (-1, 4), "x"), buckets={"x": (1, 8)})


@pytest.mark.parametrize(
    ("spec", "out", "same"),
    [
        (TensorSpec(F, (1, 3), "x"), Y, ()),
        (TensorSpec(F, (), "x"), Y, ()),
        (TensorSpec(F, None, "x"), Y, ()),
        (X, TensorSpec(F, (1, -1), "y"), ()),
        (X, Y, (((0, 1), None),)),
    ],
)
def test_a_batch_that_the_model_cannot_take_is_refused(spec: TensorSpec, out: TensorSpec, same) -> None:
    with pytest.raises(OptionError, match="batch=2"):
        shapes(spec, outputs=(out,), same=same, batch=2)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=5), st.integers(1, 6))
def test_every_request_gets_its_own_rows_back(sizes: list[tuple[int, int]], multiple: int) -> None:
    made = shapes(batch=64, buckets={"x": (1, multiple)}, same=(((0, 0), (0, 1)),))
    rng = np.random.default_rng(0)
    width = -(-sizes[0][1] // multiple) * multiple
    arrays = [rng.random((n, w), np.float32) for n, w in sizes if -(-w // multiple) * multiple == width]
    batch = requests_of(made, *arrays)
    buffers = Buffers()
    assert buffers.claim()
    (gathered,) = batch.gather(made, buffers, 64)
    assert gathered.shape[0] == sum(len(array) for array in arrays)
    assert gathered.shape[1] == width or len(arrays) == 1
    assert gathered.sum() == pytest.approx(sum(float(array.sum()) for array in arrays), rel=1e-4)
    for array, (found,) in zip(arrays, batch.scatter(made, [gathered * 2])):
        np.testing.assert_array_equal(found, array * 2)


def test_padding_stays_where_nobody_knows_what_to_cut() -> None:
    made = shapes(batch=4, buckets={"x": (1, 4)})
    batch = requests_of(made, ones(1, 3), ones(1, 4))
    (first,), (second,) = batch.scatter(made, [np.zeros((2, 4), "f4")])
    assert first.shape == second.shape == (1, 4)


def test_results_are_nobody_elses_memory() -> None:
    made = shapes(batch=4)
    batch, out = requests_of(made, ones(1, 2), ones(1, 2)), np.zeros((2, 2), "f4")
    found = [arrays[0] for arrays in batch.scatter(made, [out])]
    assert not any(np.shares_memory(array, out) for array in found)
    alone = requests_of(made, ones(1, 2))
    frozen = out[:1]
    frozen.flags.writeable = False
    assert alone.scatter(made, [frozen])[0][0].flags.writeable
    own = np.zeros((1, 2), "f4")
    assert alone.scatter(made, [own])[0][0] is own


@pytest.mark.parametrize("wrong", [np.zeros((3, 2), "f4"), np.zeros((), "f4")])
def test_outputs_without_the_rows_of_the_inputs_are_noticed(wrong: np.ndarray) -> None:
    made = shapes(batch=4)
    with pytest.raises(RunError, match="for 2 rows"):
        requests_of(made, ones(1, 2), ones(1, 2)).scatter(made, [wrong])
    with pytest.raises(RunError, match="gave 2 outputs"):
        requests_of(made, ones(1, 2)).scatter(made, [wrong, wrong])


def test_buffers_belong_to_one_batch_at_a_time_and_are_used_again() -> None:
    buffers = Buffers()
    assert buffers.claim() and not buffers.claim() and buffers.busy
    first = buffers.inputs("k", [(2,)], [ones(1, 2)], 4)[0]
    outs = [buffers.alloc((4, 2), np.dtype("f4")) for _ in range(2)]
    assert not np.shares_memory(*outs)
    buffers.release()
    assert buffers.claim()
    assert np.shares_memory(buffers.inputs("k", [(2,)], [ones(1, 2)], 3)[0], first)
    assert [buffers.alloc((4, 2), np.dtype("f4")) is out for out in outs] == [True, True]


def test_buffers_of_many_shapes_do_not_pile_up() -> None:
    buffers = Buffers()
    for width in range(200):
        buffers.claim()
        buffers.inputs(width, [(width,)], [ones(1, 2)], 4)
        buffers.alloc((4, width), np.dtype("f4"))
        buffers.release()
    assert len(buffers._inputs) <= 16 and len(buffers._outputs) <= 16
