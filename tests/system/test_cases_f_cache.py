"""Cases of area F: models with side files, and the compile cache."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from tests.system.case_support import MODELS, ROOT


def external_model(folder: Path, weights: list[float]) -> Path:
    """y = x + w, with w in a file beside the model."""
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    folder.mkdir(parents=True, exist_ok=True)
    w = onnx.TensorProto(name="w", data_type=kinds.FLOAT, dims=[len(weights)], data_location=kinds.EXTERNAL)
    w.external_data.add(key="location", value="weights.bin")
    w.external_data.add(key="length", value=str(4 * len(weights)))
    ends = [helper.make_tensor_value_info(name, kinds.FLOAT, [len(weights)]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [w])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    (folder / "weights.bin").write_bytes(np.array(weights, np.float32).tobytes())
    return folder / "model.onnx"


def shifted(path: Path | str, options: dict[str, str]) -> tuple[list[float], int]:
    """The model's answer to zeros, and how many of its parts came from the cache."""
    point = df.GraphProcessPoint(df.Framework.ONNX, path)
    with df.FlowGraph([point.fnode(1, 1)(df.FlowData("x"))], options) as graph:  # type: ignore[list-item]
        assert graph.running.report is not None
        return graph(np.zeros(3, np.float32), timeout=40).tolist(), graph.running.report.cache_hits  # type: ignore[attr-defined]


def test_weights_beside_a_model_are_found_and_a_change_of_them_alone_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BC-085, BC-087: from another folder, by relative path and by a link; then the same size and time stamp."""
    model = external_model(tmp_path / "M", [1, 2, 3])
    away = tmp_path / "away"
    away.mkdir()
    (away / "link").symlink_to(model.parent)
    options = {"cache_dir": str(tmp_path / "cache")}
    monkeypatch.chdir(away)
    assert shifted(model, options) == ([1, 2, 3], 0)
    assert shifted("../M/model.onnx", options) == ([1, 2, 3], 1)
    assert shifted(away / "link" / "model.onnx", options) == ([1, 2, 3], 1)
    side = model.parent / "weights.bin"
    stamp = side.stat().st_mtime_ns
    side.write_bytes(np.array([4, 5, 6], np.float32).tobytes())
    os.utime(side, ns=(stamp, stamp))
    assert shifted(model, options) == ([4, 5, 6], 0)


# ------------------------------------------------------------------------------- BC-086, BC-087: the cache

BUILDS = """
import sys
import numpy as np
import dflow_core as df
x = df.FlowData("x")
a = df.GraphProcessPoint(df.Framework.ONNX, sys.argv[1] + "/conv_small.onnx").fnode(1, 1, "conv")
b = df.GraphProcessPoint(df.Framework.ONNX, sys.argv[1] + "/add_float.onnx").fnode(2, 1, "add")
graph = df.FlowGraph([a(x), b(df.FlowData("p"), df.FlowData("q"))], {"cache_dir": sys.argv[2]}, mode="inline")
print("ready", flush=True)
sys.stdin.readline()
with graph:
    reference = np.load(sys.argv[1] + "/conv_small.onnx.npz")
    given = next(reference[n] for n in reference.files if n.startswith("in_"))
    wanted = next(reference[n] for n in reference.files if n.startswith("out_"))
    one = np.ones(3, np.float32)
    got, two = graph(x=given, p=one, q=one)
    np.testing.assert_allclose(got, wanted, atol=1e-4)
    assert two.tolist() == [2, 2, 2]
    print("right", graph.running.report.cache_hits)
"""


def test_processes_that_build_one_graph_at_once_and_killed_ones_leave_a_sound_cache(tmp_path: Path) -> None:
    """BC-086: five at once with an empty folder, two of them killed in mid-build; then one entry is damaged."""
    cache = tmp_path / "cache"

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", BUILDS, str(MODELS), str(cache)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    builders = [start() for _ in range(5)]
    for builder in builders:
        assert builder.stdout is not None and builder.stdout.readline() == "ready\n"
    for builder in builders:
        assert builder.stdin is not None
        builder.stdin.write("\n")
        builder.stdin.flush()
    for builder in builders[:2]:
        threading.Event().wait(random.uniform(0, 0.3))
        builder.send_signal(signal.SIGKILL)
    results = [builder.communicate(timeout=60) for builder in builders]
    for builder, (output, errors) in zip(builders[2:], results[2:]):
        assert builder.returncode == 0 and output.startswith("right "), errors
    with start() as again:
        output, errors = again.communicate("\n", timeout=60)
        assert output.endswith("right 2\n"), errors
    damaged = max((path for path in cache.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    with start() as rebuilt:
        output, errors = rebuilt.communicate("\n", timeout=60)
        assert output.endswith("right 1\n"), errors
        assert errors.count("rebuil") <= 1
    with start() as healed:
        output, errors = healed.communicate("\n", timeout=60)
        assert output.endswith("right 2\n"), errors


def test_every_change_rebuilds_what_it_touches_and_nothing_else(tmp_path: Path) -> None:
    """BC-087: body, constant, init argument, model bytes at the same time stamp; another graph under the same key."""
    model = tmp_path / "model.onnx"
    shutil.copy(MODELS / "add_float.onnx", model)
    stamp = model.stat().st_mtime_ns
    options = {"cache_dir": str(tmp_path / "cache"), "graph_key": "one key"}

    @df.pyflow
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        @df.method()
        def run(self, x):
            return x * self.factor

    def build(function: object = None, factor: int = 3, name: str = "g") -> tuple[object, dict[str, str]]:
        a, b = df.FlowData("a"), df.FlowData("b")
        point = df.GraphProcessPoint(df.Framework.ONNX, model)
        end = point.fnode(2, 1, "net")(Scale.fnode(factor).run(a), b)
        if function is not None:
            end = df.pyflow(function, name="last").fnode()(end)  # type: ignore[arg-type]
        with df.FlowGraph([end], options, name, mode="inline") as graph:  # type: ignore[list-item]
            one = np.ones(3, np.float32)
            report = graph.running.report
            assert report is not None
            return graph(one, one).tolist(), {n.node: n.cache for n in report.nodes}  # type: ignore[attr-defined]

    functions_are_packed_anew = {"Scale": build()[1]["Scale"]}
    hit = {"net": "hit", **functions_are_packed_anew}
    last = {**hit, "last": functions_are_packed_anew["Scale"]}
    assert build() == ([4, 4, 4], hit)
    assert build(factor=5) == ([6, 6, 6], hit)
    assert build(lambda x: x + 1) == ([5, 5, 5], last)
    assert build(lambda x: x + 2) == ([6, 6, 6], last)
    assert build(lambda x: x + 2, name="another graph") == ([6, 6, 6], last)
    shutil.copy(MODELS / "add_dynamic.onnx", model)
    os.utime(model, ns=(stamp, stamp))
    try:
        assert build()[1]["net"] == "miss"
    except df.GraphError as error:  # its inputs may be of another rank or type, and that is seen at once too
        assert {fault.node for fault in error.faults} == {"net"}
    except df.TensorError as error:
        assert "'b'" in str(error)
    shutil.copy(MODELS / "add_float.onnx", model)
    assert build() == ([4, 4, 4], hit)
