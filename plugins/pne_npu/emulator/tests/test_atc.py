"""The model compiler: what it says, what it refuses, and what is in its files."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from dflow_acl_emulator.faults import AtcError
from dflow_acl_emulator.naming import node_names, read_graph
from dflow_acl_emulator.om_file import HEADER, MAGIC
from dflow_acl_emulator.options import read_options
from dflow_acl_emulator.shapes import parse_shape, plan_gears, resolve

Atc: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]
FIRST = "ATC start working now, please wait for a moment."
NEEDED = ["--framework=5", "--model=m.onnx", "--output=m", "--soc_version=Ascend310P3"]


def description(path: Path) -> list[str]:
    """Lines of the description in a model file."""
    data = path.read_bytes()
    count, _ = struct.unpack_from("<II", data, HEADER)
    (size,) = struct.unpack_from("<Q", data, HEADER + 8 + 16)
    start = HEADER + 8 + 24 * count
    return data[start : start + size].decode().splitlines()


def test_success_speaks_the_protocol_and_writes_a_whole_file(
    environment: dict[str, str], models: Path, tmp_path: Path
) -> None:
    command = ["atc", "--framework", "5", f"--model={models / 'add_float.onnx'}", "--output", str(tmp_path / "out"),
               "--soc_version=Ascend310P3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0
    assert done.stdout.splitlines()[:3] == [FIRST, "...", "ATC run success, welcome to the next use."]
    data = (tmp_path / "out.om").read_bytes()
    magic, header = struct.unpack_from("<II", data)
    (length,) = struct.unpack_from("<Q", data, 184)
    assert (magic, header, length) == (MAGIC, HEADER, len(data) - HEADER)
    assert [path.name for path in tmp_path.iterdir()] == ["out.om"]


def test_names_types_and_sizes_are_kept(om: Callable[..., Path], models: Path) -> None:
    lines = description(om(models / "conv_small.onnx", input_shape="image:2,3,32,32"))
    assert "shapes fixed" in lines
    assert "input 0 0 2,3,32,32 - image" in lines
    assert "output 0 2 2,10 - Softmax_9:0:probs" in lines


def test_outputs_of_tensorflow_are_in_the_files_order(om: Callable[..., Path], models: Path) -> None:
    lines = [line for line in description(om(models / "two_outputs.pb")) if line.startswith("output")]
    order = [name for name in node_names((models / "two_outputs.pb").read_bytes()) if name in ("low", "add")]
    assert [line.split()[-1] for line in lines] == [f"{name}:0" for name in order]


def test_halves_at_the_interface(om: Callable[..., Path], add_model: Path) -> None:
    path = om(add_model, input_shape="a:1,4;b:1,4", input_fp16_nodes="a", output_type="FP16")
    assert [line.split()[1] for line in description(path) if line[:5] in ("input", "outpu")] == ["1", "0", "1"]


def test_outputs_can_be_chosen(om: Callable[..., Path], add_model: Path) -> None:
    lines = description(om(add_model, out_nodes="add:0"))
    assert [line.split()[-1] for line in lines if line.startswith("output")] == ["add:0"]


@pytest.mark.parametrize(
    ("options", "id"),
    [
        ({"input_shape": "nobody:1,4"}, "E10016"),
        ({"input_shape": "a:1,4,4"}, "E10049"),
        ({"out_nodes": "nobody:0"}, "E11017"),
        ({"output_type": "FP99"}, "E10003"),
        ({"input_shape": "a:-1,4;b:-1,4", "dynamic_batch_size": "4"}, "E10035"),
    ],
)
def test_a_refusal_names_its_id(atc: Atc, add_model: Path, tmp_path: Path, options: dict[str, str], id: str) -> None:
    done = atc(add_model, tmp_path / "out", **options)
    assert done.returncode == 255
    lines = done.stdout.splitlines()
    assert lines[1].startswith("ATC run failed") and f"({id}): " in lines[2]
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_operator_is_named(atc: Atc, tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    sides = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in "xy"]
    graph = helper.make_graph([helper.make_node("Frobnicate", ["x"], ["y"])], "g", *sides)
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph, ir_version=8).SerializeToString())
    done = atc(tmp_path / "m.onnx", tmp_path / "out")
    assert done.returncode == 255
    assert "(E10501): " in done.stdout and "Frobnicate" in done.stdout


@pytest.mark.parametrize(("content", "id"), [(b"", "E10041"), (b"not a model at all", "E10041"), (None, "E13001")])
def test_a_file_that_is_no_model(atc: Atc, tmp_path: Path, content: bytes | None, id: str) -> None:
    if content is not None:
        (tmp_path / "m.onnx").write_bytes(content)
    done = atc(tmp_path / "m.onnx", tmp_path / "out")
    assert done.returncode == 255 and f"({id}): " in done.stdout


@pytest.mark.parametrize(
    ("words", "id"),
    [
        (["--model=m"], "E10054"), ([*NEEDED[1:]], "E10007"), ([*NEEDED, "--nonsense=1"], "E10001"),
        ([*NEEDED, "--log="], "E10004"), ([*NEEDED, "--log=loud"], "E10010"), ([*NEEDED, "--mode=1"], "E10055"),
        ([*NEEDED[:3], "--soc_version=H100"], "E10001"), (["--framework=9"], "E10003"), (["--framework=0"], "E10055"),
        ([*NEEDED, "--dynamic_dims=1;2", "--dynamic_batch_size=1,2"], "E10009"), (["model"], "E10001"),
        ([*NEEDED, "--precision_mode=best"], "E10003"), ([*NEEDED[:2], "--output=a/", NEEDED[3]], "E10022"),
    ],
)
def test_options_are_checked(words: list[str], id: str) -> None:
    with pytest.raises(AtcError) as caught:
        read_options(words)
    assert caught.value.id == id


def test_shapes_are_read() -> None:
    assert parse_shape("a:1,-1;b:2~8,3") == {"a": ((1, 1), (1, -1)), "b": ((2, 8), (3, 3))}
    assert resolve({"": ((1, 1),)}, {"x": [-1]}, "input_shape") == {"x": ((1, 1),)}


@pytest.mark.parametrize(
    ("text", "id"), [("a:x", "E10002"), ("a:0", "E10011"), ("a:8~2", "E10048"), ("a:1~", "E10048")]
)
def test_wrong_shapes(text: str, id: str) -> None:
    with pytest.raises(AtcError) as caught:
        parse_shape(text)
    assert caught.value.id == id


FREE, BATCH = (1, -1), {"x": ((1, -1), (3, 3))}


@pytest.mark.parametrize(
    ("dims", "option", "value", "id"),
    [
        (BATCH, "dynamic_batch_size", "1", "E10035"),
        (BATCH, "dynamic_batch_size", "1,1", "E10039"),
        (BATCH, "dynamic_batch_size", "1,-2", "E10038"),
        (BATCH, "dynamic_batch_size", "1,a", "E10003"),
        (BATCH, "dynamic_batch_size", ",".join(map(str, range(1, 103))), "E10036"),
        ({"x": ((3, 3), FREE)}, "dynamic_batch_size", "1,2", "E10018"),
        ({"x": ((3, 3), (3, 3))}, "dynamic_dims", "1;2", "E10040"),
        ({"x": ((2, 5), (3, 3))}, "dynamic_dims", "1;2", "E10040"),
        ({"x": (FREE, FREE)}, "dynamic_dims", "1,2;3", "E10037"),
        ({"x": (FREE, FREE)}, "dynamic_dims", "1;3", "E10045"),
        ({"x": (FREE, (3, 3), (8, 8), (8, 8))}, "dynamic_image_size", "1,2;3,4", "E10019"),
    ],
)
def test_wrong_gears(dims: dict[str, tuple[tuple[int, int], ...]], option: str, value: str, id: str) -> None:
    options = read_options([*NEEDED, f"--{option}={value}"])
    with pytest.raises(AtcError) as caught:
        plan_gears(options, dims, "NCHW")
    assert caught.value.id == id


def test_gears_of_each_kind() -> None:
    image = {"x": ((1, 1), (3, 3), FREE, FREE)}
    kind, plans = plan_gears(read_options([*NEEDED, "--dynamic_image_size=8,9;16,17"]), image, "NCHW")
    assert (kind, plans[1].values, plans[1].inputs) == ("image", (16, 17), ((1, 3, 16, 17),))
    both = {"x": (FREE, (2, 2)), "y": (FREE,)}
    kind, plans = plan_gears(read_options([*NEEDED, "--dynamic_dims=1,5;2,6"]), both, "ND")
    assert (kind, plans[0].inputs) == ("dims", ((1, 2), (5,)))


def test_damaged_onnx_files_have_no_names() -> None:
    assert read_graph(b"\xff\xff\xff").nodes == ()
    assert node_names(b"\x0a\xff") == []
