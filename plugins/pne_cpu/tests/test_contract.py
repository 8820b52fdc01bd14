"""The engine against the contract that every engine keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dflow_core.graph import Framework, GraphProcessPoint
from dflow_core.spi import EngineEntry
from dflow_core.testing.engine_contract import EngineCase, EngineContract
from dflow_pne_cpu import plugin

MODELS = Path(__file__).resolve().parents[3] / "tests" / "data" / "models"


class TestCpuEngine(EngineContract):
    """ONNX on both libraries, and a TensorFlow graph with two outputs."""

    @pytest.fixture
    def entry(self) -> EngineEntry:
        return plugin.dflow_register_engines()[0]

    @pytest.fixture(params=["conv_small.onnx openvino", "conv_small.onnx onnxruntime", "two_outputs.pb auto"])
    def case(self, request: pytest.FixtureRequest) -> EngineCase:
        name, runtime = request.param.split()
        framework = Framework.ONNX if name.endswith(".onnx") else Framework.TENSORFLOW
        with np.load(MODELS / f"{name}.npz") as data:
            inputs = [data[key] for key in data.files if key.startswith("in_")]
            outputs = [data[key].astype(np.float32) for key in data.files if key.startswith("out_")]
        return EngineCase(GraphProcessPoint(framework, MODELS / name, runtime=runtime), inputs, outputs)
