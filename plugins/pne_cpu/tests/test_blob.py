"""The compiled form: where it fits, where it does not, and what that saves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import psutil
import pytest

from dflow_core.errors import CompileError, RunError
from dflow_core.model import SerializedModel

BOTH = pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
FEEDS = [np.ones(3, np.float32)] * 2


@BOTH
def test_a_form_that_fits_is_loaded_without_a_word(bench, runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = bench.compile(bench.point("add_float.onnx", runtime=runtime))

    def never(*_args: object) -> object:
        raise AssertionError("compiled again")

    monkeypatch.setattr(type(bench.loader._runtimes[runtime]), "compile", never)
    assert bench.load(model).execute(FEEDS, np.empty)[0].tolist() == [2, 2, 2]
    assert bench.reports == []


@BOTH
def test_a_form_for_another_machine_is_compiled_again_and_told_once(bench, runtime: str) -> None:
    model = bench.compile(bench.point("add_float.onnx", runtime=runtime))
    worker = bench.load(replace(model, blob_tag=f"{runtime} 1.0 aarch64/x/y"))
    for _ in range(3):
        assert worker.execute(FEEDS, np.empty)[0].tolist() == [2, 2, 2]
    (sentence,) = bench.reports
    assert sentence.startswith(f"compiles node again: it was compiled for {runtime} 1.0 aarch64/x/y, this is {runtime}")


@BOTH
@pytest.mark.parametrize("damage", ["cut", "garbage"])
def test_a_damaged_form_is_compiled_again_and_told_once(bench, runtime: str, damage: str) -> None:
    model = bench.compile(bench.point("conv_small.onnx", runtime=runtime))
    blob = model.blob[: len(model.blob) // 2] if damage == "cut" else b"\x07" * 1000
    worker = bench.load(replace(model, blob=blob))
    assert worker.execute([np.zeros((1, 3, 32, 32), np.float32)], np.empty)[0].shape == (1, 10)
    assert len(bench.reports) == 1
    assert "compiles node again" in bench.reports[0]


def test_a_model_without_compiled_form_is_compiled(bench) -> None:
    model = bench.compile(bench.point("two_outputs.pb"))
    worker = bench.load(replace(model, blob=b"", blob_tag=""))
    low, high = worker.execute([np.ones((4, 1), np.float32)], np.empty)
    assert (low.tolist(), high.tolist()) == ([[2], [2]], [[2], [2]])
    assert bench.reports == []


def test_the_source_must_still_be_a_model(bench) -> None:
    model = bench.compile(bench.point("add_float.onnx", runtime="openvino"))
    with pytest.raises(CompileError):
        bench.load(replace(model, blob=b"", source=b"\x07" * 100))


def test_a_model_of_another_engine_is_refused(bench) -> None:
    with pytest.raises(CompileError, match="runs no SerializedModel"):
        bench.load(SerializedModel(name="n", engine="X", data=b""))


def test_the_compiled_form_does_not_depend_on_threads(bench) -> None:
    model = bench.compile(bench.point("conv_small.onnx"))
    feed = np.random.default_rng(0).random((2, 3, 32, 32), np.float32)
    results = [bench.load(model, threads).execute([feed], np.empty)[0] for threads in (1, 2)]
    np.testing.assert_allclose(*results, atol=1e-6)
    assert bench.reports == []


def test_a_model_mends_itself_after_every_failing_call(bench, pool, make_onnx) -> None:
    """Loaded from its compiled form or compiled from source, as often as it takes."""
    data = make_onnx([("Add", "x z", "y")], [("x", "FLOAT", ["N"]), ("z", "FLOAT", ["M"])], [("y", "FLOAT", ["K"])])
    model = bench.compile(bench.point(data, runtime="openvino"))
    for made in (model, replace(model, blob=b"")):
        worker = bench.load(made)
        for _ in range(4):
            with pytest.raises(RunError):
                worker.execute([np.ones(2, np.float32), np.ones(3, np.float32)], pool)
            for _ in range(2):
                assert worker.execute([np.ones(2, np.float32)] * 2, pool)[0].tolist() == [2, 2]


@BOTH
def test_loading_and_closing_again_and_again_keeps_nothing(bench, runtime: str) -> None:
    model = bench.compile(bench.point("conv_medium.onnx", runtime=runtime))
    feed = np.zeros((1, 3, 128, 128), np.float32)

    def cycle() -> None:
        worker = bench.load(model)
        worker.execute([feed], np.empty)
        worker.close()
        bench.workers.clear()

    process = psutil.Process()
    for _ in range(15):
        cycle()
    before, files, threads = process.memory_info().rss, process.num_fds(), process.num_threads()
    for _ in range(50):
        cycle()
    assert process.memory_info().rss - before < 12 * 2**20
    assert process.num_fds() <= files
    assert process.num_threads() <= threads + 2
