"""Missing, broken and odd model files, and weights that lie beside the model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from dflow_core.errors import ModelFormatError
from dflow_core.graph import Framework, GraphProcessPoint
from dflow_core.spi import CompileContext
from dflow_pne_cpu.model_file import ModelFile, read_facts


@pytest.fixture
def external(tmp_path: Path, make_onnx: Callable[..., bytes]) -> Path:
    """A folder with `model.onnx`, which adds the weights in `parts/weights.bin` (1, 2, 3) to its input."""
    folder = tmp_path / "made"
    (folder / "parts").mkdir(parents=True)
    weight = numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")
    data = make_onnx([("Add", "x w", "y")], [("x", "FLOAT", [3])], [("y", "FLOAT", [3])], [weight])
    model = onnx.load_from_string(data)
    onnx.save_model(model, folder / "model.onnx", save_as_external_data=True, location="parts/weights.bin",
                    size_threshold=0)
    assert (folder / "parts" / "weights.bin").stat().st_size >= 12
    return folder


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.onnx", None, "does not exist"),
        ("empty.onnx", b"", "is empty"),
        ("garbage.onnx", b"\xff" * 50, "this is not an ONNX model, or it is damaged"),
        ("text.onnx", b"hello, I am a text file", "this is not an ONNX model, or it is damaged"),
    ],
)
def test_a_missing_or_broken_file_is_refused_in_our_words(
    tmp_path: Path, name: str, content: bytes | None, words: str, bench
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    point = GraphProcessPoint(Framework.ONNX, path)
    context = CompileContext("node", {}, 1, 1)
    steps: list[Callable[[], object]] = [
        lambda: bench.engine.describe(point), lambda: bench.engine.cache_key(point, context),
        lambda: bench.engine.compile(point, context),
    ]
    for step in steps:
        with pytest.raises(ModelFormatError) as caught:
            step()
        assert words in str(caught.value)
        assert str(path) in str(caught.value)


def test_a_truncated_model_is_refused_with_the_place(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes((models / "conv_medium.onnx").read_bytes()[:200_000])
    with pytest.raises(ModelFormatError, match="beyond its end") as caught:
        read_facts(GraphProcessPoint(Framework.ONNX, path))
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    ("framework", "name", "words"),
    [
        (Framework.ONNX, "add.pb", "this is a frozen TensorFlow graph, not an ONNX model"),
        (Framework.TENSORFLOW, "add_float.onnx", "this is an ONNX model, not a frozen TensorFlow graph"),
    ],
)
def test_a_file_of_the_other_kind_is_called_by_its_name(
    models: Path, framework: Framework, name: str, words: str
) -> None:
    with pytest.raises(ModelFormatError, match=words):
        read_facts(GraphProcessPoint(framework, models / name))


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="this is a folder"):
        read_facts(GraphProcessPoint(Framework.TENSORFLOW, tmp_path))


def test_a_broken_link_is_called_one(tmp_path: Path) -> None:
    link = tmp_path / "model.onnx"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ModelFormatError, match="leads nowhere"):
        read_facts(GraphProcessPoint(Framework.ONNX, link))


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_odd_paths_work(models: Path, tmp_path: Path, bench, runtime: str) -> None:
    """BC-084: blanks, quotes, other scripts, a dollar, and a long path."""
    folder = tmp_path / "a b" / "模型 é'\"$x" / ("long" * 40) / ("path" * 40)
    folder.mkdir(parents=True)
    shutil.copy(models / "add_float.onnx", folder / "mo del.onnx")
    link = folder / "link.onnx"
    link.symlink_to("mo del.onnx")
    for path in (folder / "mo del.onnx", link):
        worker = bench.worker(path, runtime=runtime)
        (result,) = worker.execute([np.ones(3, np.float32)] * 2, np.empty)
        assert result.tolist() == [2, 2, 2]


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("how", ["from another folder", "relative", "link to the folder", "link to the file",
                                 "links to both files"])
def test_weights_beside_the_model_are_found(
    external: Path, tmp_path: Path, bench, monkeypatch: pytest.MonkeyPatch, runtime: str, how: str
) -> None:
    """BC-085: from any current folder, by relative path and through symbolic links."""
    away = tmp_path / "away"
    away.mkdir()
    path = external / "model.onnx"
    monkeypatch.chdir(external.parent if how == "relative" else away)
    if how == "relative":
        path = Path("made/model.onnx")
    elif how == "link to the folder":
        (tmp_path / "linked").symlink_to(external)
        path = tmp_path / "linked" / "model.onnx"
    elif how == "link to the file":
        path = away / "model.onnx"
        path.symlink_to(external / "model.onnx")
    elif how == "links to both files":
        path = away / "model.onnx"
        path.symlink_to(external / "model.onnx")
        (away / "parts").mkdir()
        (away / "parts" / "weights.bin").symlink_to(external / "parts" / "weights.bin")
    model = bench.compile(bench.point(path, runtime=runtime))
    assert set(model.side_files) == {"parts/weights.bin"}
    shutil.rmtree(external)
    (result,) = bench.load(model).execute([np.zeros(3, np.float32)], np.empty)
    assert result.tolist() == [1, 2, 3]


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_weights_beside_the_model_travel_with_its_source(external: Path, bench, runtime: str) -> None:
    """BC-085: another machine, where the compiled form does not fit, has the weights too."""
    model = bench.compile(bench.point(external / "model.onnx", runtime=runtime))
    shutil.rmtree(external)
    (result,) = bench.load(replace(model, blob_tag="another machine")).execute([np.zeros(3, np.float32)], np.empty)
    assert result.tolist() == [1, 2, 3]


def test_an_onnxruntime_that_takes_no_weights_from_memory_reads_them_from_files(
    external: Path, bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BC-085: the newest onnxruntime for Python 3.10 is such a one."""
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.delattr(
        onnxruntime.SessionOptions, "add_external_initializers_from_files_in_memory", raising=False
    )
    worker = bench.worker(external / "model.onnx", runtime="onnxruntime")
    (result,) = worker.execute([np.zeros(3, np.float32)], np.empty)
    assert result.tolist() == [1, 2, 3]


def test_weights_are_part_of_the_cache_key(external: Path, bench) -> None:
    """BC-087: the side file changed, at the same time stamp."""
    point, context = bench.point(external / "model.onnx"), CompileContext("node", {}, 1, 1)
    side = external / "parts" / "weights.bin"
    before, stamp = bench.engine.cache_key(point, context), side.stat().st_mtime_ns
    data = bytearray(side.read_bytes())
    data[0] ^= 1
    side.write_bytes(data)
    os.utime(side, ns=(stamp, stamp))
    assert bench.engine.cache_key(point, context) != before


def test_missing_weights_are_named_before_anything_runs(external: Path, bench) -> None:
    (external / "parts" / "weights.bin").unlink()
    with pytest.raises(ModelFormatError, match="weights file 'parts/weights.bin' is missing"):
        bench.engine.describe(bench.point(external / "model.onnx"))


def test_a_model_given_as_bytes_cannot_have_weights_elsewhere(external: Path, bench) -> None:
    with pytest.raises(ModelFormatError, match="give the path of the model"):
        bench.compile(bench.point((external / "model.onnx").read_bytes()))


@pytest.mark.parametrize("location", ["../outside.bin", "/etc/passwd"])
def test_weights_outside_the_folder_are_refused(
    tmp_path: Path, make_onnx: Callable[..., bytes], bench, location: str
) -> None:
    weight = onnx.TensorProto(name="w", data_type=1, dims=[3], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    path = tmp_path / "model.onnx"
    path.write_bytes(make_onnx([("Add", "x w", "y")], [("x", "FLOAT", [3])], [("y", "FLOAT", [3])], [weight]))
    with pytest.raises(ModelFormatError, match="outside its own folder"):
        bench.engine.describe(bench.point(path))


def test_a_model_in_memory_is_opened_without_a_file() -> None:
    with ModelFile("onnx", b"content").opened() as path:
        assert path.startswith("/proc/self/fd/")
        assert Path(path).read_bytes() == b"content"
    assert not os.path.exists(path)


def test_side_files_are_laid_out_and_removed_again() -> None:
    with ModelFile("onnx", b"content", {"a/b.bin": b"side"}).opened() as path:
        assert (Path(path).parent / "a" / "b.bin").read_bytes() == b"side"
    assert not Path(path).parent.exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_weights_behind_two_gib_of_a_side_file_are_found(external: Path, bench, runtime: str) -> None:
    """BC-085."""
    offset = (1 << 31) + 4096
    side = external / "parts" / "weights.bin"
    with side.open("r+b") as file:
        weights = file.read(12)
        file.seek(0)
        file.write(bytes(12))
        file.seek(offset)
        file.write(weights)
    model = onnx.load(external / "model.onnx", load_external_data=False)
    (weight,) = model.graph.initializer
    del weight.external_data[:]
    for key, value in {"location": "parts/weights.bin", "offset": offset, "length": 12}.items():
        weight.external_data.add(key=key, value=str(value))
    onnx.save_model(model, external / "model.onnx")
    (result,) = bench.worker(external / "model.onnx", runtime=runtime).execute([np.zeros(3, np.float32)], np.empty)
    assert result.tolist() == [1, 2, 3]
