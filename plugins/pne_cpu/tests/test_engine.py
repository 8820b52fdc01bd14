"""The Engine: what it says of files, what it compiles, and when a cached result is no longer right."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dflow_core.errors import CompileError, OptionError, TensorError
from dflow_core.graph import Framework, FuncProcessPoint, GraphProcessPoint
from dflow_core.spi import CompileContext
from dflow_core.types import DataType, FuncSpec
from dflow_pne_cpu import plugin
from dflow_pne_cpu.engine import CpuEngine
from dflow_pne_cpu.machine import cpu_tag, tag_of
from dflow_pne_cpu.runtimes import RuntimeSet, default_runtimes


def context(inputs: int = 2, outputs: int = 1, **options: str) -> CompileContext:
    return CompileContext("node", options, inputs, outputs)


def test_the_entry_takes_model_files_and_nothing_else(models: Path) -> None:
    (entry,) = plugin.dflow_register_engines()
    assert (entry.id, entry.shares_process) == ("CPU", True)
    assert entry.accepts(GraphProcessPoint(Framework.ONNX, "m.onnx"))
    assert entry.accepts(GraphProcessPoint(Framework.TENSORFLOW, "m.pb"))
    assert not entry.accepts(GraphProcessPoint(Framework.MINDSPORE, "m.air"))
    assert not entry.accepts(FuncProcessPoint(builtin="x"))
    engine, loader = entry.engine(), entry.worker()
    assert engine.id == "CPU"
    assert callable(loader)


def test_describing_imports_no_model_library(models: Path) -> None:
    """`dflow check` looks at every model file of a graph in under a second."""
    program = (
        "import sys, time\n"
        "from dflow_core.graph import Framework, GraphProcessPoint\n"
        "from dflow_pne_cpu import plugin\n"
        "engine = plugin.dflow_register_engines()[0].engine()\n"
        "io = engine.describe(GraphProcessPoint(Framework.ONNX, sys.argv[1]))\n"
        "assert [s.name for s in io.inputs] == ['image'], io\n"
        "bad = {'openvino', 'onnxruntime', 'onnx', 'tensorflow'} & set(sys.modules)\n"
        "assert not bad, bad\n"
    )
    subprocess.run([sys.executable, "-c", program, str(models / "conv_medium.onnx")], check=True, timeout=60)


def test_other_points_are_not_described(bench) -> None:
    assert bench.engine.describe(FuncProcessPoint(builtin="x")) is None
    with pytest.raises(CompileError, match="takes ONNX files") as caught:
        bench.engine.compile(FuncProcessPoint(builtin="x"), context())
    assert caught.value.node == "node"


def test_what_is_described_is_what_is_compiled(models: Path, bench) -> None:
    for path in sorted([*models.glob("*.onnx"), *models.glob("*.pb")]):
        point = bench.point(path)
        described, model = bench.engine.describe(point), bench.compile(point)
        assert described.inputs == model.inputs
        assert [spec.name for spec in described.outputs] == [spec.name for spec in model.outputs]
        for told, made in zip(described.outputs, model.outputs):
            assert told.conflict(made) is None
        assert model.functions == (FuncSpec("", tuple(range(len(model.inputs))), tuple(range(len(model.outputs)))),)
        assert model.source == path.read_bytes()
        assert model.blob


def test_the_number_of_ports_must_be_the_models(bench) -> None:
    with pytest.raises(CompileError, match=r"node has 1 outputs, but .*two_outputs.onnx has 2: top .*where") as caught:
        bench.compile(bench.point("two_outputs.onnx"), outputs=1)
    assert "output_names" in (caught.value.hint or "")
    with pytest.raises(CompileError, match="node has 3 inputs"):
        bench.engine.compile(bench.point("add.pb"), context(3))


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_outputs_can_be_chosen_and_ordered(bench, runtime: str) -> None:
    point = bench.point("two_outputs.onnx", runtime=runtime, load_params={"output_names": "where,top"})
    model = bench.compile(point)
    assert [(s.name, s.dtype) for s in model.outputs] == [("where", DataType.INT64), ("top", DataType.FLOAT)]
    where, top = bench.load(model).execute([np.array([[1, 5, 2]], np.float32)], np.empty)
    assert (where.tolist(), top.tolist()) == ([1], [5])


def config(tmp_path: Path, content: object) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize("model", ["add.pb", "add_float.onnx"])
@pytest.mark.parametrize("shape", [None, [2, 3], [-1, 3]])
def test_input_descriptions_retype_and_reshape(tmp_path: Path, bench, model: str, shape: list[int] | None) -> None:
    """What a compile config with DT_INT32 over a float `add.pb` asks for."""
    entry: dict[str, object] = {"data_type": "DT_INT32"}
    if shape:
        entry["shape"] = shape
    path = config(tmp_path, {"inputs_tensor_desc": [entry, entry]})
    compiled = bench.compile(bench.point(model, compile_config_path=path))
    assert {spec.dtype for spec in (*compiled.inputs, *compiled.outputs)} == {DataType.INT32}
    array = np.broadcast_to(np.array([1, 2, 3], np.int32), [2, 3] if shape else [3])
    (result,) = bench.load(compiled).execute([array, array * 10], np.empty)
    assert result.tolist() == (array * 11).tolist()


@pytest.mark.parametrize("text", ["X1:1~4;X2:1~4", "1~4;1~4"])
def test_shape_ranges_are_compiled_and_kept(tmp_path: Path, bench, text: str) -> None:
    path = config(tmp_path, {"build_options": {"ge.inputShape": text}})
    worker = bench.worker("add_dynamic.onnx", compile_config_path=path)
    assert worker.inputs[0].shape == (-1,)
    assert worker.execute([np.ones(4, np.float32)] * 2, np.empty)[0].tolist() == [2] * 4
    with pytest.raises(TensorError, match="dimension 0 is 5, but the config allows 1 to 4"):
        worker.execute([np.ones(5, np.float32)] * 2, np.empty)


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_a_fixed_shape_is_compiled(tmp_path: Path, bench, runtime: str) -> None:
    path = config(tmp_path, {"build_options": {"ge.inputShape": "image:1,3,128,128"}})
    model = bench.compile(bench.point("conv_medium.onnx", compile_config_path=path, runtime=runtime))
    assert model.inputs[0].shape == (1, 3, 128, 128)


@pytest.mark.parametrize(
    "entry", [{"data_type": "DT_INT32"}, {"shape": [2, 3]}],
)
def test_the_second_library_says_what_it_cannot_change(tmp_path: Path, bench, entry: dict[str, object]) -> None:
    path = config(tmp_path, {"inputs_tensor_desc": [entry, entry]})
    with pytest.raises(CompileError, match="onnxruntime cannot .* use runtime='openvino'"):
        bench.compile(bench.point("add_float.onnx", compile_config_path=path, runtime="onnxruntime"))


def test_notes_of_the_settings_are_reported(tmp_path: Path, bench) -> None:
    bench.compile(bench.point("add_float.onnx", compile_config_path=config(tmp_path, {"inputs_tensor_dsc": []})))
    assert any("inputs_tensor_dsc" in sentence for sentence in bench.reports)


def test_numbers_that_openvino_narrows_are_reported(bench, make_onnx) -> None:
    data = make_onnx([("Add", "x x", "y")], [("x", "INT64", ["N"])], [("y", "INT64", ["N"])])
    bench.compile(bench.point(data, runtime="openvino"))
    assert "'x' is int64, which OpenVINO may compute in int32" in bench.reports[0]
    (result,) = bench.worker(data, runtime="onnxruntime").execute([np.array([2**40])], np.empty)
    assert result.tolist() == [2**41]


# ---------------------------------------------------------------------------------------------------- cache key


def test_the_same_question_has_the_same_key(models: Path, tmp_path: Path) -> None:
    copy = shutil.copy(models / "add_float.onnx", tmp_path / "other.onnx")
    keys = {
        CpuEngine().cache_key(GraphProcessPoint(Framework.ONNX, path), context())
        for path in (models / "add_float.onnx", copy, (models / "add_float.onnx").read_bytes())
    }
    assert len(keys) == 1


def test_whatever_changes_the_result_changes_the_key(models: Path, tmp_path: Path) -> None:
    """BC-087."""
    engine = CpuEngine()

    def key(
        engine: CpuEngine = engine, node: str = "node", options: dict[str, str] | None = None, **how: object
    ) -> bytes:
        point = GraphProcessPoint(Framework.ONNX, models / "add_dynamic.onnx", **how)
        return engine.cache_key(point, CompileContext(node, options or {}, 2, 1))

    class Newer(type(default_runtimes()["openvino"])):  # type: ignore[misc]
        def version(self) -> str:
            return "9999.1"

    newer = CpuEngine(RuntimeSet({"openvino": Newer(), "onnxruntime": default_runtimes()["onnxruntime"]}))
    one = config(tmp_path, {"build_options": {"ge.inputShape": "3;3"}})
    keys = [
        key(), key(runtime="openvino"), key(precision="bf16"), key(round_dims="8"), key(newer), key(fixed_shapes="3;3"),
        key(load_params={"input_data_names": "X2,X1"}), key(compile_config_path=one),
        key(options={"plugin.cpu.precision": "bf16", "plugin.cpu.runtime": "openvino"}),
    ]
    (tmp_path / "config.json").write_text(json.dumps({"build_options": {"ge.inputShape": "4;4"}}))
    keys.append(key(compile_config_path=one))
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]
    assert key(options={"queue_depth": "4"}) == key(node="other") == keys[0]


def test_another_cpu_is_another_tag() -> None:
    info = "processor: 0\nvendor_id: A\ncpu family: 6\nmodel: 207\nflags: fpu avx avx2 avx512f\n\nprocessor: 1\n"
    base = tag_of("x86_64", info)
    assert base == tag_of("x86_64", info.replace("fpu ", "fpu somethingnew "))
    others = [tag_of("aarch64", info), tag_of("x86_64", info.replace("207", "208")),
              tag_of("x86_64", info.replace(" avx512f", "")), tag_of("x86_64", "")]
    assert len({base, *others}) == 5
    assert tag_of("aarch64", "CPU implementer : 0x41\nFeatures : fp asimd sve\n").startswith("aarch64/0x41/")
    assert cpu_tag() == cpu_tag()


def test_options_of_a_wrong_kind_are_refused(bench) -> None:
    with pytest.raises(OptionError):
        bench.compile(bench.point("add_float.onnx"), **{"plugin.cpu.precision": "f16"})


def test_a_model_is_data(bench) -> None:
    """It can be copied, renamed and sent."""
    model = bench.compile(bench.point("add_float.onnx"))
    renamed = replace(model, name="outer/inner")
    assert bench.load(renamed).execute([np.ones(3, np.float32)] * 2, np.empty)[0].tolist() == [2, 2, 2]
    assert all(isinstance(value, str) for value in model.settings.values())
