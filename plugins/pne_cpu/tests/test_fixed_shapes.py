"""Forms of a model for inputs of certain shapes, besides the general one."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from dflow_core.errors import OptionError, RunError
from dflow_pne_cpu.recipe import Recipe
from dflow_pne_cpu.runtimes import RefusedError
from dflow_pne_cpu.runtimes.by_shape import SessionByShape, join_blobs, split_blob
from dflow_pne_cpu.settings import OPTION_PREFIX

FIXED = "x:1,3,64,32|x:2,3,32,32"


@pytest.fixture
def image_model(make_onnx) -> bytes:
    nodes = [("GlobalAveragePool", "x", "y"), ("Relu", "x", "z")]
    return make_onnx(nodes, [("x", "FLOAT", ["N", 3, "H", "W"])],
                     [("y", "FLOAT", ["N", 3, 1, 1]), ("z", "FLOAT", ["N", 3, "H", "W"])])


@pytest.fixture
def adder(make_onnx) -> bytes:
    """Adds; inputs of shapes that do not fit each other fail in the general form."""
    return make_onnx([("Add", "x z", "y")], [("x", "FLOAT", ["N"]), ("z", "FLOAT", ["M"])], [("y", "FLOAT", ["K"])])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("1,3,64,32", (((1, 3, 64, 32),),)),
        ("x:1,3,64,32", (((1, 3, 64, 32),),)),
        ("x:0:1,3,64,32", (((1, 3, 64, 32),),)),
        (" x : 1, 3, 64, 32 | 2,3,8,8 |", (((1, 3, 64, 32),), ((2, 3, 8, 8),))),
    ],
)
def test_sets_of_shapes_are_written_like_ge_input_shape(bench, image_model: bytes, text: str, found: object) -> None:
    model = bench.compile(bench.point(image_model, fixed_shapes=text))
    assert Recipe.from_text(model.settings["recipe"]).fixed_shapes == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,3,64", "does not fit"),
        ("1,4,64,32", "does not fit"),
        ("1,3,64,-1", "needs all its sizes"),
        ("1,3,64,8~16", "needs all its sizes"),
        ("1,3,sixty,4", r"fixed_shapes=.*'sixty' is no size"),
        ("1,3,8,8;1,3,8,8", "has 2 shapes, but the model .* has 1 inputs"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(bench, image_model: bytes, text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        bench.compile(bench.point(image_model, fixed_shapes=text))


def test_an_input_left_out_must_have_a_fixed_shape(bench, make_onnx) -> None:
    free = make_onnx([("Add", "x z", "y")], [("x", "FLOAT", ["N", 3]), ("z", "FLOAT", [3])], [("y", "FLOAT", ["N", 3])])
    model = bench.compile(bench.point(free, fixed_shapes="x:4,3"))
    assert Recipe.from_text(model.settings["recipe"]).fixed_shapes == (((4, 3), (3,)),)
    with pytest.raises(OptionError, match="'x' of .* needs all its sizes"):
        bench.compile(bench.point(free, fixed_shapes="z:3"))


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("from_source", [False, True])
def test_answers_do_not_depend_on_the_form(bench, pool, image_model: bytes, runtime: str, from_source: bool) -> None:
    model = bench.compile(bench.point(image_model, runtime=runtime, fixed_shapes=FIXED))
    worker = bench.load(replace(model, blob=b"") if from_source else model)
    random = np.random.default_rng(3)
    for shape in ((1, 3, 64, 32), (1, 3, 5, 7), (2, 3, 32, 32), (1, 3, 64, 32), (1, 3, 32, 64)):
        feed = random.uniform(-1, 1, shape).astype(np.float32)
        mean, above = worker.execute([feed], pool)
        np.testing.assert_allclose(mean, feed.mean(axis=(2, 3), keepdims=True), atol=1e-6)
        assert np.array_equal(above, np.maximum(feed, 0))
    assert bench.reports == []


def test_a_node_shows_its_free_shapes_nevertheless(bench, image_model: bytes) -> None:
    model = bench.compile(bench.point(image_model, fixed_shapes=FIXED))
    assert model.inputs[0].shape == (-1, 3, -1, -1)
    assert bench.load(model).inputs == model.inputs


def test_the_general_form_is_loaded_when_other_shapes_come(bench, image_model: bytes) -> None:
    worker = bench.load(bench.compile(bench.point(image_model, runtime="openvino", fixed_shapes=FIXED)))
    session = worker._session
    assert isinstance(session, SessionByShape)
    worker.execute([np.zeros((2, 3, 32, 32), np.float32)], np.empty)
    assert session._made is None
    worker.execute([np.zeros((3, 3, 32, 32), np.float32)], np.empty)
    assert session._made is not None


def test_calls_on_several_forms_overlap_and_keep_their_order(bench, pool, image_model: bytes) -> None:
    worker = bench.load(bench.compile(bench.point(image_model, runtime="openvino", fixed_shapes=FIXED)))
    shapes = [(1, 3, 64, 32), (1, 3, 8, 8), (2, 3, 32, 32), (1, 3, 8, 8), (1, 3, 64, 32)]
    feeds = [np.full(shape, number, np.float32) for number, shape in enumerate(shapes)]
    calls = [worker.begin([feed], pool) for feed in feeds]
    for feed, call in zip(feeds, calls):
        assert np.array_equal(worker.finish(call)[1], feed)


def test_a_failing_call_of_one_form_leaves_the_others_alone(bench, pool, adder: bytes) -> None:
    worker = bench.load(bench.compile(bench.point(adder, runtime="openvino", fixed_shapes="x:2;z:2")))
    pair = [np.ones(2, np.float32)] * 2
    for _ in range(3):
        with pytest.raises(RunError):
            worker.execute([np.ones(2, np.float32), np.ones(3, np.float32)], pool)
        assert worker.execute(pair, pool)[0].tolist() == [2, 2]


def test_a_damaged_compiled_form_is_compiled_again(bench, image_model: bytes) -> None:
    model = bench.compile(bench.point(image_model, runtime="openvino", fixed_shapes=FIXED))
    for blob in (model.blob[:-1], model.blob[:4], b"\xff" * 64, model.blob[:8] + b"{" + model.blob[9:]):
        bench.reports.clear()
        worker = bench.load(replace(model, blob=blob))
        assert worker.execute([np.ones((1, 3, 64, 32), np.float32)], np.empty)[1].sum() == 3 * 64 * 32
        assert ["compiles node again" in report for report in bench.reports] == [True]


@pytest.mark.parametrize("blobs", [[b""], [b"one", b""], [b"a" * 300, b"b", b"c" * 7]])
def test_compiled_forms_are_joined_and_split(blobs: list[bytes]) -> None:
    joined = join_blobs(blobs)
    assert split_blob(joined, len(blobs)) == blobs
    refused = functools.partial(pytest.raises, RefusedError, match="damaged")
    for count in (0, len(blobs) + 1):
        with refused():
            split_blob(joined, count)
    for cut in range(len(joined)):
        with refused():
            split_blob(joined[:cut], len(blobs))


def test_it_can_be_an_option_for_all_models(bench, image_model: bytes) -> None:
    model = bench.compile(bench.point(image_model), **{f"{OPTION_PREFIX}fixed_shapes": "1,3,8,8"})
    assert Recipe.from_text(model.settings["recipe"]).fixed_shapes == (((1, 3, 8, 8),),)


@pytest.mark.parametrize(
    "head",
    ["[3, null]", '[3, "2"]', "[3, 2.0]", "[3, true]", "[6, -1]", "[[], {}]", "{}", "5", "null", '"ab"', "", "[3, 2",
     "[" * 100_000],
)
def test_a_compiled_form_with_odd_sizes_is_damaged(head: str) -> None:
    """Of 5 bytes; `[3, 2]` is what they would be."""

    def written(text: str) -> bytes:
        return len(text).to_bytes(8, "little") + text.encode() + b"abcde"

    assert split_blob(written("[3, 2]"), 2) == [b"abc", b"de"]
    with pytest.raises(RefusedError, match="damaged"):
        split_blob(written(head), 2)
