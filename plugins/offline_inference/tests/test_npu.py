"""The same models on an NPU, which the emulator stands in for: nothing here knows the difference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dflow_acl_emulator import emulated_environment
from dflow_core.cli.app import app
from dflow_core.errors import OptionError, TensorError
from dflow_offline_inference import ModelConfig, OfflineInference

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process's environment leads to the emulator."""
    for name, value in emulated_environment().items():
        if os.environ.get(name) != value:
            monkeypatch.setenv(name, value)


def pictures(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [rng.random((1, 3, 32, 32), np.float32) for _ in range(count)]


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_both_engines_give_the_same_results(models: Path, workers: str) -> None:
    configs = {
        "cpu": ModelConfig(models / "conv_small.onnx"),
        "npu": ModelConfig(models / "conv_small.onnx", engine="NPU", settings={"input_shape": "image:1,3,32,32"}),
    }
    with OfflineInference(configs, workers=workers) as offline:  # type: ignore[arg-type]
        here, there = ([result[0] for result in offline.map(name, pictures(9))] for name in configs)
        with pytest.raises(TensorError, match="model 'npu'"):
            offline.infer("npu", np.zeros((2, 3, 32, 32), np.float32))
    for one, other in zip(here, there):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_each_worker_runs_on_the_device_it_is_bound_to(models: Path, tmp_path: Path, workers: str) -> None:
    """As a program of its own, because the emulator reads the number of devices once."""
    program = f"""
import logging, sys
import numpy as np
from dflow_offline_inference import ModelConfig, OfflineInference
logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
config = ModelConfig({str(models / "conv_small.onnx")!r}, engine="NPU", instances=2, devices=("npu:2", "npu:1"),
                     settings={{"input_shape": "image:1,3,32,32"}})
with OfflineInference({{"m": config}}, workers={workers!r}) as offline:
    print(len(list(offline.map("m", [np.ones((1, 3, 32, 32), np.float32)] * 6))))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "ACL_EMULATOR_DEVICES": "3"})
    assert (done.returncode, done.stdout) == (0, "6\n"), done.stderr
    assert {number for number in range(3) if f"runs on npu:{number}" in done.stderr} == {1, 2}


@pytest.mark.parametrize(
    ("engine", "device", "hint"), [("NPU", "npu:7", "it has npu:0"), ("CPU", "npu:0", "those of the host alone")]
)
def test_a_device_that_the_engine_has_not(models: Path, engine: str, device: str, hint: str) -> None:
    settings = {"input_shape": "image:1,3,32,32"} if engine == "NPU" else {}
    config = ModelConfig(models / "conv_small.onnx", engine=engine, devices=(device,), settings=settings)
    with pytest.raises(OptionError, match=f"engine {engine} has no device '{device}'") as caught, OfflineInference(
        {"m": config}
    ):
        pass
    assert hint in str(caught.value.hint)


def test_a_folder_on_an_npu(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "in").mkdir()
    for number, picture in enumerate(pictures(3)):
        np.save(tmp_path / "in" / f"{number}.npy", picture)
    words = ["infer", "--model", str(models / "conv_small.onnx"), "--engine", "NPU", "--input", "in", "--output", "out"]
    done = CliRunner().invoke(
        app, [*words, "-O", "plugin.npu.input_shape=image:1,3,32,32", "--json"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["done"] == 3 == len(list((tmp_path / "out").glob("*.npz")))
