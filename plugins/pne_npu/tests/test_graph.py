"""Graphs of real models in processes: the same answers on both engines, and where models run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df

SIZES = {"chain_body": "image:1,3,24,24", "chain_head": "features:1,32,6,6"}


def chain(models: Path, engine: str) -> df.FlowGraph:
    """Features of an image, then a vector of the features."""
    output: df.FlowData | df.FlowOutput = df.FlowData("image")
    for name, sizes in SIZES.items():
        settings = {"input_shape": sizes} if engine == "NPU" else {}
        point = df.GraphProcessPoint(df.Framework.ONNX, models / f"{name}.onnx", **settings)
        output = point.fnode(1, 1, name=name).set_options(engine=engine)(output)
    return df.FlowGraph([output], {"cache": "0"}, name=f"chain_{engine.lower()}")


def test_both_engines_give_the_same_and_the_middle_stays_on_the_device(
    models: Path, emulated: dict[str, str], tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("ACL_EMULATOR_STATS", str(tmp_path / "%p.json"))
    images = [np.random.default_rng(seed).random((1, 3, 24, 24), np.float32) for seed in range(4)]
    with chain(models, "CPU") as graph:
        wanted = list(graph.map(images))
    with chain(models, "NPU") as graph:
        found = list(graph.map(images))
    for one, other in zip(found, wanted):
        assert np.allclose(one, other, atol=1e-5)
    (file,) = tmp_path.glob("*.json")
    counted = json.loads(file.read_text())
    assert (counted["host_to_device"], counted["device_to_host"]) == (4 * images[0].nbytes, 4 * wanted[0].nbytes)
    assert counted["executes"] == 8 and counted["misuses"] == 0


def test_two_processes_on_one_device(models: Path, emulated: dict[str, str], monkeypatch) -> None:
    """Each has a context of its own; what one of them does or suffers is nothing to the other."""
    monkeypatch.setenv("ACL_EMULATOR_DEVICES", "1")
    image = np.random.default_rng(3).random((1, 3, 24, 24), np.float32)
    with chain(models, "NPU") as one, chain(models, "NPU") as other:
        pids = {status.pid for graph in (one, other) for status in graph.running.deployment.status() if status.pid}
        assert len(pids) == 2
        wanted = one(image)
        for _ in range(3):
            for graph in (one, other):
                graph.feed({"image": image})
            assert all(np.array_equal(graph.fetch(), wanted) for graph in (one, other))
        one.close()
        assert np.array_equal(other(image), wanted)


def test_a_failed_run_ends_its_transaction_and_no_other(
    models: Path, emulated: dict[str, str], monkeypatch
) -> None:
    monkeypatch.setenv("ACL_EMULATOR_FAULTS", "task:execute#3 code=507015")
    image = np.ones((1, 3, 24, 24), np.float32)
    with chain(models, "NPU") as graph:
        first = graph(image)
        try:
            graph(image)
        except df.NodeError as error:
            assert "507015" in str(error) and "chain_body" in str(error)
        else:
            raise AssertionError("the failed run gave a result")
        assert np.array_equal(graph(image), first)


@pytest.mark.parametrize("asked", ["config", "setting", "option"])
def test_a_model_placed_on_the_host_is_run_by_the_cpu_engine_and_the_plan_says_so(
    models: Path, tmp_path: Path, monkeypatch, asked: str
) -> None:
    """As CANN's own CPU engine would: no NPU, no ACL and no atc take part."""
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "nowhere"))
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"build_options": {"ge.exec.placement": "HOST"} if asked == "config" else {}}))
    settings = {"placement": "HOST"} if asked == "setting" else {}
    options = {"plugin.npu.placement": "HOST"} if asked == "option" else {}
    point = df.GraphProcessPoint(df.Framework.ONNX, models / "chain_body.onnx", None, config, **settings)
    plain = df.GraphProcessPoint(df.Framework.ONNX, models / "chain_body.onnx")
    image = np.random.default_rng(1).random((1, 3, 24, 24), np.float32)
    found = []
    for one, engine, more in ((point, "NPU", options), (plain, "CPU", {})):
        output = one.fnode(1, 1, name="body").set_options(engine=engine)(df.FlowData("image"))
        with df.FlowGraph([output], {"cache": "0", **more}, name="placed") as graph:
            found.append(graph(image))
            assert [model.engine for model in graph.running.model.submodels.values()] == ["CPU"]
    assert np.array_equal(*found)


def slices(folder: Path, kind: str) -> list[tuple[float, float]]:
    """Beginnings and ends of what a timeline has of a kind, in order."""
    (file,) = folder.glob("*.json")
    events = [one for one in json.loads(file.read_text())["traceEvents"] if one["name"] == kind]
    return sorted((one["ts"], one["ts"] + one["dur"]) for one in events)


def test_copies_of_one_transaction_overlap_the_run_of_another(
    models: Path, emulated: dict[str, str], tmp_path: Path, monkeypatch
) -> None:
    """Runs are slow, so the copies beside them begin and end while one runs; each stream keeps its order."""
    monkeypatch.setenv("ACL_EMULATOR_TRACE", str(tmp_path / "%p.json"))
    monkeypatch.setenv("ACL_EMULATOR_FAULTS", "task:execute slow=150")
    point = df.GraphProcessPoint(df.Framework.ONNX, models / "chain_body.onnx", input_shape=SIZES["chain_body"])
    output = point.fnode(1, 1, name="body").set_options(engine="NPU")(df.FlowData("image"))
    images = [np.full((1, 3, 24, 24), value, np.float32) for value in range(5)]
    with df.FlowGraph([output], {"cache": "0"}, name="overlap") as graph:
        assert len(list(graph.map(images, in_flight=5))) == 5
    ups, runs, downs = (slices(tmp_path, kind) for kind in ("H2D", "chain_body", "D2H"))
    assert len(ups) == len(runs) == len(downs) == 5

    def inside(copy: tuple[float, float], run: tuple[float, float]) -> bool:
        return run[0] < copy[0] and copy[1] < run[1]

    assert any(inside(ups[i + 1], runs[i]) for i in range(4)), "an input comes while the one before it is computed"
    assert any(inside(downs[i], runs[i + 1]) for i in range(4)), "a result leaves while the next one is computed"
    assert all(ups[i + 2][0] > downs[i][0] for i in range(3)), "two are in flight, not more"


def test_a_lost_device_ends_what_was_on_it_and_is_opened_anew(
    models: Path, emulated: dict[str, str], monkeypatch
) -> None:
    monkeypatch.setenv("ACL_EMULATOR_FAULTS", "task:execute#7 lost")
    image = np.ones((1, 3, 24, 24), np.float32)
    with chain(models, "NPU") as graph:
        first = graph(image)
        keys = [graph.feed({"image": image}) for _ in range(3)]
        told = []
        for _ in keys:
            try:
                graph.fetch()
            except df.DflowError as error:
                told.append(str(error))
        assert told and "507010" in told[0], "the cause reaches the caller"
        assert np.array_equal(graph(image), first), "the process was started again"


def test_a_deploy_file_names_npus_and_the_plan_says_so(
    models: Path, emulated: dict[str, str], tmp_path: Path
) -> None:
    """As a program of its own, because the emulator reads the number of devices once."""
    (tmp_path / "graphs.py").write_text(f"""
import dflow_core as df
point = df.GraphProcessPoint(df.Framework.ONNX, {str(models / "chain_body.onnx")!r}, input_shape="image:1,3,24,24")
output = point.fnode(1, 1, name="body").set_options(engine="NPU")(df.FlowData("image"))
graph = df.FlowGraph([output], {{"cache": "0"}}, name="listed")
""")
    listed = {"flow_node_list": ["body"], "logic_device_list": "0:0:1~2"}
    (tmp_path / "deploy.json").write_text(json.dumps({"batch_deploy_info": [listed]}))
    command = [sys.executable, "-m", "dflow_core.cli.main", "plan", "graphs.py:graph", "-O", "deploy_info=deploy.json"]
    done = subprocess.run(command, env={**emulated, "ACL_EMULATOR_DEVICES": "3"}, cwd=tmp_path, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for text in ("npu:1", "npu:2", "0:0:1:0", "Ascend", "line "):
        assert text in done.stdout, done.stdout
    assert "npu:0" not in done.stdout
