"""Graphs of real models in processes: the same answers on both engines, and where models run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

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
