"""`import dflow_core` is cheap: it loads numpy, the core's own data classes, and nothing else that costs time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    "asyncio", "cffi", "click", "cloudpickle", "concurrent.futures.process", "dflow_core.cli", "dflow_core.compiler",
    "dflow_core.deploy", "dflow_core.executor", "dflow_core.plugins", "dflow_core.proto", "dflow_core.testing",
    "google", "grpc", "importlib.metadata", "importlib_metadata", "ml_dtypes", "multiprocessing", "onnx",
    "onnxruntime", "openvino", "pluggy", "psutil", "rich", "socket", "ssl", "subprocess", "torch",
}  # fmt: skip

PROGRAM = """
import json, sys
import numpy
before = set(sys.modules)
import dflow_core
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """Modules that `import dflow_core` adds to those of numpy."""
    text = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=30)
    return set(json.loads(text.stdout))


def test_importing_the_core_loads_nothing_heavy(loaded):
    assert not loaded & HEAVY


def test_importing_the_core_loads_no_plugin(loaded):
    assert not {name for name in loaded if name.startswith("dflow_") and not name.startswith("dflow_core")}


def test_importing_the_core_loads_few_modules(loaded):
    """A module costs 0.2 to 1 ms; `bench/` measures the time itself."""
    assert len(loaded) <= 100, sorted(loaded)
