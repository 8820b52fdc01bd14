"""Free dimensions rounded up, and cut back again."""

from __future__ import annotations

import numpy as np
import pytest

from dflow_core.errors import OptionError
from dflow_core.spi import same_sizes
from dflow_core.types import DataType, TensorSpec
from dflow_pne_cpu.facts import FileFacts
from dflow_pne_cpu.rounding import Rounding, make_rounding

INPUTS = (TensorSpec(DataType.FLOAT, (-1, 3, -1), "x"), TensorSpec(DataType.FLOAT, (-1,), "y"))
OUTPUTS = (TensorSpec(DataType.FLOAT, (-1, -1), "out"),)
FACTS = FileFacts(INPUTS, OUTPUTS, symbols={"x": ("N", "", "W"), "y": ("M",), "out": ("N", "W")})


def make(text: str) -> Rounding:
    made = make_rounding(text, INPUTS, OUTPUTS, FACTS)
    assert made is not None
    return made


def test_nothing_asked_is_nothing_rounded() -> None:
    assert make_rounding(" ", INPUTS, OUTPUTS, FACTS) is None


def test_one_number_is_for_every_free_dimension_but_the_first() -> None:
    assert make("32").multiples == ((1, 1, 32), (1,))


@pytest.mark.parametrize("text", ["4,1,8;2", "y:2;x:4,1,8"])
def test_multiples_may_be_listed_by_position_or_name(text: str) -> None:
    assert make(text).multiples == ((4, 1, 8), (2,))


def test_outputs_are_cut_where_the_file_gives_the_same_symbol() -> None:
    assert make("x:1,1,8").crops == ((None, (0, 2)),)


def test_padding_is_zeros_at_the_end_and_answers_lose_it_again() -> None:
    rounding = make("x:1,1,4")
    inputs = [np.ones((2, 3, 5), np.float32), np.ones(3, np.float32)]
    padded = rounding.pad(inputs)
    assert padded[0].shape == (2, 3, 8)
    assert padded[0][:, :, :5].min() == 1
    assert padded[0][:, :, 5:].max() == 0
    assert padded[1] is inputs[1]
    (cut,) = rounding.crop([padded[0].sum(1)], inputs)
    assert cut.tolist() == [[3] * 5] * 2


def test_an_input_that_fits_is_not_copied() -> None:
    array = np.ones((1, 3, 8), np.float32)
    assert make("x:1,1,4").pad([array, np.ones(1, np.float32)])[0] is array


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x:1,3,8", "dimension 1 of 'x' is fixed at 3"),
        ("x:1,8", "another number of dimensions"),
        ("z:1", "no input 'z'"),
        ("1,1,8;1;1", "no input 2"),
        ("x:1,1,0", "is no multiple"),
        ("all", "is no multiple"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        make(text)


def test_it_survives_text() -> None:
    rounding = make("x:1,1,8")
    assert Rounding.from_text(rounding.to_text()) == rounding


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_a_model_sees_fewer_shapes_and_the_caller_does_not_notice(bench, make_onnx, pool, runtime: str) -> None:
    data = make_onnx([("Relu", "x", "y")], [("x", "FLOAT", ["N", "W"])], [("y", "FLOAT", ["N", "W"])])
    worker = bench.worker(data, runtime=runtime, round_dims="32")
    for width in (1, 5, 31, 32, 33, 64):
        array = np.arange(2 * width, dtype=np.float32).reshape(2, width)
        (result,) = worker.execute([array], pool)
        assert np.array_equal(result, array)
        assert result.flags.c_contiguous
    assert {key[0][1] for key in worker._known} == {32, 64}


def test_a_compiled_model_says_which_sizes_are_the_same(bench, make_onnx) -> None:
    data = make_onnx([("MatMul", "x z", "y")], [("x", "FLOAT", ["N", "K"]), ("z", "FLOAT", ["K", "M"])],
                     [("y", "FLOAT", ["N", "M"])])
    assert same_sizes(bench.compile(bench.point(data))) == (((0, 0), (1, 1)),)


def test_a_size_without_a_name_equals_none(bench) -> None:
    assert same_sizes(bench.compile(bench.point("conv_small.onnx"))) == (((0, 0), None),)
    assert same_sizes(bench.compile(bench.point("add.pb"))) == ((),)
