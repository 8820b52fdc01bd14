"""Which library is taken, and what is said about it (BC-079: never a quiet fall-back)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dflow_core.errors import CompileError, PluginError
from dflow_pne_cpu.engine import CpuEngine
from dflow_pne_cpu.model_file import ModelFile
from dflow_pne_cpu.recipe import Recipe
from dflow_pne_cpu.runtimes import RuntimeSet, Session, default_runtimes
from dflow_pne_cpu.worker import CpuLoader

OpenVino, Onnx = (type(default_runtimes()[name]) for name in ("openvino", "onnxruntime"))


class NoOpenVino(OpenVino):  # type: ignore[misc, valid-type]
    """OpenVINO where it is not installed."""

    def version(self) -> str:
        return ""

    def prepare(self) -> None:
        raise PluginError("OpenVINO cannot be imported: No module named 'openvino'", hint="pip install openvino")


class NoOnnx(Onnx):  # type: ignore[misc, valid-type]
    """onnxruntime where it is not installed."""

    def prepare(self) -> None:
        raise PluginError("onnxruntime cannot be imported: No module named 'onnxruntime'",
                          hint="pip install 'dflow-pne-cpu[onnxruntime]'")

    def compile(self, file: ModelFile, recipe: Recipe, threads: int) -> Session:
        self.prepare()
        raise AssertionError("unreachable")


@pytest.fixture
def refused(make_onnx: Callable[..., bytes]) -> bytes:
    """A model that OpenVINO refuses (a tensor of unknown rank) and onnxruntime runs."""
    return make_onnx([("Add", "x x", "y")], [("x", "FLOAT", None)], [("y", "FLOAT", None)])


def with_runtimes(bench, openvino: object, onnx: object) -> None:
    runtimes = RuntimeSet({"openvino": openvino, "onnxruntime": onnx})  # type: ignore[dict-item]
    bench.engine, bench.loader = CpuEngine(runtimes), CpuLoader(runtimes)


def test_openvino_is_taken_without_a_word(bench) -> None:
    model = bench.compile(bench.point("conv_small.onnx"))
    assert model.settings["runtime"] == "openvino"
    assert bench.reports == []


def test_a_file_that_openvino_refuses_goes_on_and_is_told(bench, refused: bytes) -> None:
    model = bench.compile(bench.point(refused))
    assert model.settings["runtime"] == "onnxruntime"
    (sentence,) = bench.reports
    assert sentence.startswith("runs on onnxruntime because OpenVINO cannot compile model given as bytes: ")
    assert "dynamic rank" in sentence
    for shape in ((2, 2), (3,), ()):
        (result,) = bench.load(model).execute([np.ones(shape, np.float32)], np.empty)
        assert (result == 2).all()
        assert result.shape == shape


def test_where_openvino_is_missing_the_reason_is_told(bench) -> None:
    with_runtimes(bench, NoOpenVino(), Onnx())
    model = bench.compile(bench.point("add_float.onnx"))
    assert model.settings["runtime"] == "onnxruntime"
    assert bench.reports == ["runs on onnxruntime because OpenVINO cannot be imported: No module named 'openvino'"]


def test_the_library_asked_for_is_taken_or_nothing(bench, refused: bytes) -> None:
    with pytest.raises(CompileError, match="OpenVINO cannot compile"):
        bench.compile(bench.point(refused, runtime="openvino"))
    with_runtimes(bench, NoOpenVino(), Onnx())
    with pytest.raises(PluginError) as caught:
        bench.compile(bench.point("add_float.onnx", runtime="openvino"))
    assert caught.value.hint == "pip install openvino"


def test_tensorflow_files_need_openvino(bench) -> None:
    with pytest.raises(CompileError, match=r"onnxruntime does not read tensorflow files such as .*add\.pb"):
        bench.compile(bench.point("add.pb", runtime="onnxruntime"))
    with_runtimes(bench, NoOpenVino(), Onnx())
    with pytest.raises(PluginError, match="OpenVINO cannot be imported") as caught:
        bench.compile(bench.point("add.pb"))
    assert "pip install openvino" in (caught.value.hint or "")


def test_both_reasons_are_told_where_both_refuse(bench, make_onnx: Callable[..., bytes]) -> None:
    data = make_onnx([("NoSuchOperation", "x", "y")], [("x", "FLOAT", [1])], [("y", "FLOAT", [1])])
    with pytest.raises(CompileError, match=r"no model library takes .*OpenVINO cannot.*onnxruntime cannot") as caught:
        bench.compile(bench.point(data))
    assert caught.value.node == "node"


def test_a_missing_second_library_is_named_with_what_to_install(bench, refused: bytes) -> None:
    with_runtimes(bench, OpenVino(), NoOnnx())
    with pytest.raises(CompileError, match="OpenVINO cannot compile .*onnxruntime cannot be imported") as caught:
        bench.compile(bench.point(refused))
    assert "pip install 'dflow-pne-cpu[onnxruntime]'" in (caught.value.hint or "")


def test_no_library_at_all_says_what_to_install(bench) -> None:
    with_runtimes(bench, NoOpenVino(), NoOnnx())
    with pytest.raises(PluginError, match="no model library can be imported") as caught:
        bench.compile(bench.point("add_float.onnx"))
    assert caught.value.hint == "pip install openvino"


def test_an_executor_without_openvino_falls_on_only_if_that_was_left_open(bench) -> None:
    free = bench.compile(bench.point("add_float.onnx"))
    bound = bench.compile(bench.point("add_float.onnx", runtime="openvino"))
    with_runtimes(bench, NoOpenVino(), Onnx())
    (result,) = bench.load(free).execute([np.ones(3, np.float32)] * 2, np.empty)
    assert result.tolist() == [2, 2, 2]
    assert any("runs on onnxruntime because" in sentence for sentence in bench.reports)
    with pytest.raises(PluginError, match="OpenVINO cannot be imported"):
        bench.load(bound)


def test_string_tensors_go_to_onnxruntime(bench, make_onnx: Callable[..., bytes]) -> None:
    data = make_onnx([("Identity", "x", "y")], [("x", "STRING", ["N"])], [("y", "STRING", ["N"])])
    model = bench.compile(bench.point(data))
    assert model.settings["runtime"] == "onnxruntime"
    assert bench.reports == ["runs on onnxruntime because OpenVINO runs no string tensors"]


def test_bfloat16_needs_openvino(bench) -> None:
    with pytest.raises(CompileError, match="onnxruntime computes in float32 only"):
        bench.compile(bench.point("add_float.onnx", runtime="onnxruntime", precision="bf16"))


def test_a_real_missing_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for name, words in (("openvino", "pip install openvino"), ("onnxruntime", "dflow-pne-cpu")):
        with pytest.raises(PluginError) as caught:
            default_runtimes()[name].prepare()
        assert words in (caught.value.hint or "")
