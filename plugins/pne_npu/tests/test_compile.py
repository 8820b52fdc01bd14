"""Compiling: the command line of atc, what it says, what is wrong with it or with the model."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from dflow_core.errors import CompileError, ModelFormatError, OptionError, PluginError
from dflow_core.graph import Framework, GraphProcessPoint, WireError
from dflow_core.spi import CompileContext
from dflow_pne_npu.compiling import AtcCompiler, AtcFailedError, arguments
from dflow_pne_npu.engine import NpuEngine
from dflow_pne_npu.installation import Installation
from dflow_pne_npu.model_inputs import onnx_ports, tensorflow_inputs
from dflow_pne_npu.plugin import instead
from dflow_pne_npu.settings import read_settings

SOC = "Ascend310P3"
OUTPUT = "for word; do case $word in --output=*) out=${word#--output=};; esac; done"


@pytest.fixture
def fake_atc(tmp_path: Path):
    """Makes an installation whose atc is a shell script; gives the installation."""

    def make(script: str) -> Installation:
        program = tmp_path / "cann/bin/atc"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return Installation.of({"ASCEND_HOME_PATH": str(tmp_path / "cann"), "PATH": os.environ["PATH"]})

    return make


def context(**options: str) -> CompileContext:
    """What the compiler says."""
    return CompileContext("node", options, 2, 1)


def compile_with(
    installation: Installation, data: bytes, framework: Framework = Framework.ONNX, **settings: str
) -> bytes:
    """Run the installation's atc."""
    point = GraphProcessPoint(framework, data, None, "", None, **settings)
    return AtcCompiler(installation).compile(framework, data, {}, SOC, read_settings(point, {}), "m.onnx")




def test_the_command_line(fake_atc, add_model: bytes) -> None:
    script = f'{OUTPUT}; echo "$@" > "$out.om"'
    words = compile_with(fake_atc(script), add_model, input_shape="2,4;3,4", precision_mode="fp16",
                         atc_options="--log=error --deterministic=1").decode().split()
    assert words[0] == "--framework=5" and words[3] == f"--soc_version={SOC}"
    assert words[4:] == ["--input_shape=a:2,4;b:3,4", "--precision_mode=fp16", "--log=error", "--deterministic=1"]


def test_a_name_with_system_and_processor_is_found(fake_atc, add_model: bytes) -> None:
    script = f'{OUTPUT}; echo om > "${{out}}_linux_x86_64.om"'
    assert compile_with(fake_atc(script), add_model) == b"om\n"


def test_mindspore_is_passed_through(fake_atc) -> None:
    script = f'{OUTPUT}; echo "$1 $2" > "$out.om"'
    said = compile_with(fake_atc(script), b"air", Framework.MINDSPORE).decode()
    assert said.startswith("--framework=1 ") and said.strip().endswith("/model.air")


@pytest.mark.parametrize(
    ("script", "id", "message"),
    [
        ('echo "ATC run failed"; echo "E10001: Value x is wrong"; exit 255', "E10001", "E10001: Value x is wrong"),
        ('echo "[PID: 7] 2026-01-01 Bad(E19999): no way"; exit 255', "E19999", "exit status 255.*E19999: no way"),
        ("exit 3", "", "exit status 3.*it said nothing"),
        ("exit 0", "", "wrote no model"),
        ('echo "EZ9999: oops"; kill -9 $$', "EZ9999", "exit status -9"),
    ],
)
def test_a_compiler_that_fails(fake_atc, add_model: bytes, script: str, id: str, message: str) -> None:
    with pytest.raises(AtcFailedError, match=message) as caught:
        compile_with(fake_atc(script), add_model)
    assert caught.value.id == id


def test_a_compiler_that_hangs_is_ended_with_its_children(fake_atc, add_model: bytes, tmp_path: Path) -> None:
    script = f'sleep 60 & echo $! > {tmp_path}/child; echo started; wait'
    with pytest.raises(AtcFailedError, match="did not end within 0.5 s for m.onnx") as caught:
        compile_with(fake_atc(script), add_model, atc_timeout="0.5")
    assert caught.value.lines == "started"
    child = int((tmp_path / "child").read_text())
    end = time.monotonic() + 10
    while _runs(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    """Whether a process lives; one that waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_no_compiler(tmp_path: Path, add_model: bytes) -> None:
    with pytest.raises(PluginError, match="atc, the model compiler of CANN, was not found in") as caught:
        compile_with(Installation.of({"ASCEND_HOME_PATH": str(tmp_path), "PATH": ""}), add_model)
    assert "set_env.sh" in (caught.value.hint or "")


def test_an_unknown_operator_is_named(bench) -> None:

    sides = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in "xy"]
    graph = helper.make_graph([helper.make_node("Frobnicate", ["x"], ["y"])], "g", *sides)
    with pytest.raises(AtcFailedError, match="E10501.*Frobnicate") as caught:
        bench.compile(bench.point(helper.make_model(graph, ir_version=8).SerializeToString()))
    assert caught.value.node == "node"


def test_a_wrong_chip(bench, add_model: bytes) -> None:
    with pytest.raises(AtcFailedError, match="E10001.*H100"):
        bench.compile(bench.point(add_model, soc_version="H100"), 2)


def test_the_chip_is_that_of_the_device(bench, add_model: bytes) -> None:
    assert bench.compile(bench.point(add_model), 2).blob_tag == SOC
    assert f"compiled by atc for {SOC}" in bench.reports


def test_a_ready_file_needs_no_compiler(bench, add_model: bytes, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "ready.om"
    path.write_bytes(bench.compile(bench.point(add_model, input_shape="a:1,4;b:1,4"), 2).blob)
    monkeypatch.setattr(AtcCompiler, "path", lambda _self: pytest.fail("atc was looked for"))
    point = bench.point(path)
    assert bench.engine.cache_key(point, context()) == b""
    worker = bench.load(bench.compile(point, 2))
    ones = np.ones((1, 4), np.float32)
    assert np.array_equal(worker.execute([ones, ones], np.empty)[0], ones * 2)


def test_a_ready_file_for_hardware_or_damaged(bench, add_model: bytes) -> None:
    whole = bench.compile(bench.point(add_model), 2).blob
    with pytest.raises(ModelFormatError, match="compiled for hardware"):
        bench.compile(bench.point(whole[:160] + bytes(20) + whole[180:]), 2)
    with pytest.raises(ModelFormatError, match="145006"):
        bench.compile(bench.point(whole[:-1]), 2)


def test_the_number_of_ports_is_checked(bench, add_model: bytes) -> None:
    with pytest.raises(CompileError, match="the node has 1 inputs, but .* has 2: a float.*b float"):
        bench.compile(bench.point(add_model))


def test_cache_keys_differ_where_results_do(bench, add_model: bytes, relu_model: bytes) -> None:
    engine = NpuEngine()
    points = [bench.point(add_model), bench.point(relu_model), bench.point(add_model, input_shape="a:1,4;b:1,4"),
              bench.point(add_model, soc_version="Ascend910B3"), bench.point(add_model, atc_options="--log=error")]
    assert len({engine.cache_key(point, context()) for point in points}) == len(points)
    assert engine.cache_key(points[0], context()) == engine.cache_key(bench.point(add_model, timeout="5"), context())


@pytest.mark.parametrize(("content", "message"), [(None, "does not exist"), (b"", "is empty")])
def test_files_that_are_not_there(bench, tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "m.onnx"
    if content is not None:
        path.write_bytes(content)
    for call in (bench.engine.describe, lambda point: bench.compile(point)):
        with pytest.raises(ModelFormatError, match=message):
            call(bench.point(path))


@pytest.mark.parametrize(
    ("settings", "described"),
    [
        ({}, (2, 1)), ({"input_shape": "a:1,4;b:1,4"}, (2, 1)), ({"out_nodes": "add:0"}, None),
        ({"atc_options": "--out_nodes=add:0"}, None), ({"load_params": {"output_names": "add:0"}}, None),
    ],
)
def test_the_ports_of_an_onnx_file_are_known_before_it_is_compiled(
    bench, tmp_path: Path, add_model: bytes, settings: dict, described: tuple[int, int] | None
) -> None:
    """So that a graph is told of a wrong number of them at once; unless the user chooses others."""
    file = tmp_path / "m.onnx"
    file.write_bytes(add_model)
    for model in (add_model, file):
        found = bench.engine.describe(GraphProcessPoint(Framework.ONNX, model, **settings))
        assert (None if found is None else (len(found.inputs), len(found.outputs))) == described


def test_what_is_no_onnx_file_is_told_before_it_is_compiled(bench, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\xff" * 20)
    with pytest.raises(ModelFormatError, match="not an ONNX model"):
        bench.engine.describe(bench.point(tmp_path / "m.onnx"))
    (tmp_path / "om.onnx").write_bytes(b"IMOD" + b"\xff" * 20)
    assert bench.engine.describe(bench.point(tmp_path / "om.onnx")) is None


@pytest.mark.parametrize("place", ["initializer", "constant"])
def test_weights_in_files_beside_the_model_travel_to_the_compiler(bench, tmp_path: Path, place: str) -> None:
    """Wherever in the model they are named; one that is missing or lies elsewhere is told."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4], np.full(4, 2, np.float32).tobytes(), raw=True)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    entry = weight.external_data.add()
    entry.key, entry.value = "location", "more/w.bin"
    made = [helper.make_node("Add", ["x", "w"], ["y"], name="add")]
    if place == "constant":
        made.insert(0, helper.make_node("Constant", [], ["w"], value=weight, name="w"))
    sides = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4])] for name in "xy"]
    graph = helper.make_graph(made, "g", *sides, [weight] if place == "initializer" else [])
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
                     .SerializeToString())
    with pytest.raises(ModelFormatError, match="cannot be read"):
        bench.compile(bench.point(path))
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "w.bin").write_bytes(np.full(4, 2, np.float32).tobytes())
    worker = bench.load(bench.compile(bench.point(path)))
    assert worker.execute([np.ones((1, 4), np.float32)], np.empty)[0].tolist() == [[3, 3, 3, 3]]


def test_the_compile_config(tmp_path: Path, add_model: bytes) -> None:
    config = {"build_options": {"ge.exec.precision_mode": "force_fp32", "ge.outputMaxSize": "9"},
              "inputs_tensor_desc": [{"shape": [2, 4], "format": "ND"}, {"data_type": "DT_FLOAT"}], "more": 1}
    path = tmp_path / "c.json"
    path.write_text(json.dumps(config))
    asked = read_settings(GraphProcessPoint(Framework.ONNX, add_model, None, path), {})
    assert (asked.shapes, dict(asked.atc)) == (((2, 4), None), {"precision_mode": "force_fp32"})
    assert [note for note in asked.notes if "'more'" in note or "outputMaxSize" in note] == list(asked.notes)
    model = tmp_path / "m.onnx"
    model.write_bytes(add_model)
    assert "--input_shape=a:2,4" in arguments(Framework.ONNX, model, tmp_path / "o", SOC, asked)


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({"presicion_mode": "x"}, {}, "unknown setting 'presicion_mode'"),
        ({}, {"plugin.npu.devise": "1"}, "unknown option 'plugin.npu.devise'"),
        ({"device": "first"}, {}, "device='first': expected a whole number"),
        ({"timeout": "0"}, {}, "timeout='0': expected seconds above 0"),
        ({"atc_timeout": "soon"}, {}, "atc_timeout='soon'"),
    ],
)
def test_settings_are_checked(settings: dict[str, str], options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_settings(GraphProcessPoint(Framework.ONNX, b"x", None, "", None, **settings), options)


def test_the_host_is_no_place_for_a_model_of_this_engine(tmp_path: Path, add_model: bytes) -> None:
    """It names the CPU engine instead; whoever asks it all the same is told."""
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"build_options": {"ge.exec.placement": "HOST"}}))
    for point, options in (
        (GraphProcessPoint(Framework.ONNX, add_model, None, path), {}),
        (GraphProcessPoint(Framework.ONNX, add_model, placement="host"), {}),
        (GraphProcessPoint(Framework.ONNX, add_model), {"ge.exec.placement": "HOST"}),
    ):
        assert instead(point, options) == "CPU"
        with pytest.raises(OptionError, match="asks for the host's CPUs"):
            read_settings(point, options)
    for point, options in (
        (GraphProcessPoint(Framework.ONNX, add_model), {}),
        (GraphProcessPoint(Framework.ONNX, add_model, placement="DEVICE"), {"ge.exec.placement": "HOST"}),
        (GraphProcessPoint(Framework.ONNX, add_model, None, tmp_path / "none.json"), {}),
    ):
        assert instead(point, options) == "", "the nearest to the node counts; what is wrong is told when it compiles"
    read_settings(GraphProcessPoint(Framework.ONNX, add_model, placement="DEVICE"), {})
    with pytest.raises(OptionError, match="expected DEVICE or HOST"):
        read_settings(GraphProcessPoint(Framework.ONNX, add_model, placement="MOON"), {})


def test_settings_of_the_point_come_before_options() -> None:
    point = GraphProcessPoint(Framework.ONNX, b"x", soc_version="Ascend1")
    assert read_settings(point, {"ge.socVersion": "Ascend2", "plugin.npu.device": "3"}).soc == "Ascend1"
    assert read_settings(GraphProcessPoint(Framework.ONNX, b"x"), {"ge.socVersion": "Ascend2"}).soc == "Ascend2"


def test_shapes_must_fit_the_number_of_inputs(tmp_path: Path, add_model: bytes) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(add_model)
    asked = read_settings(GraphProcessPoint(Framework.ONNX, add_model, input_shape="1,4;1,4;1,4"), {})
    with pytest.raises(OptionError, match="gives 3 shapes, the model has 2 inputs: a, b"):
        arguments(Framework.ONNX, model, tmp_path / "o", SOC, asked)


def test_model_files_are_read_as_far_as_needed(models: Path, add_model: bytes) -> None:
    assert onnx_ports(add_model) == (("a", "b"), ("y",))
    assert tensorflow_inputs((models / "two_outputs.pb").read_bytes()) == ("x",)
    with pytest.raises(WireError):
        onnx_ports(b"\xff\xff")
