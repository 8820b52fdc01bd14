"""The engine against the contract that every engine keeps, on the emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dflow_core.graph import Framework, GraphProcessPoint
from dflow_core.spi import EngineEntry
from dflow_core.testing.engine_contract import EngineCase, EngineContract
from dflow_pne_npu import plugin

MODELS = Path(__file__).resolve().parents[3] / "tests" / "data" / "models"


@pytest.mark.usefixtures("emulated", "compiled_once")
class TestNpuEngine(EngineContract):
    """ONNX with open sizes, with fixed ones and with gears, and a TensorFlow graph with two outputs."""

    @pytest.fixture
    def entry(self) -> EngineEntry:
        return plugin.dflow_register_engines()[0]

    @pytest.fixture(
        params=["conv_small.onnx", "conv_small.onnx fixed", "conv_small.onnx gears", "two_outputs.pb"],
    )
    def case(self, request: pytest.FixtureRequest) -> EngineCase:
        name, _, how = request.param.partition(" ")
        framework = Framework.ONNX if name.endswith(".onnx") else Framework.TENSORFLOW
        with np.load(MODELS / f"{name}.npz") as data:
            inputs = [data[key] for key in data.files if key.startswith("in_")]
            outputs = [data[key].astype(np.float32) for key in data.files if key.startswith("out_")]
        batch = len(inputs[0])
        settings = {
            "fixed": {"input_shape": f"image:{batch},3,32,32"},
            "gears": {"input_shape": "image:-1,3,32,32", "dynamic_batch_size": f"{batch},{batch + 3}"},
        }.get(how, {})
        return EngineCase(GraphProcessPoint(framework, MODELS / name, **settings), inputs, outputs)
