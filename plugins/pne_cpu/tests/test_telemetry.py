"""Using the engine sends nothing over the network."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import sys, threading
from dflow_pne_cpu.runtimes.openvino_runtime import import_quietly
openvino = import_quietly()
openvino.Core()
print(len(threading.enumerate()), any(name.startswith("openvino_telemetry") for name in sys.modules))
"""


def test_importing_openvino_starts_no_telemetry() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.split() == ["1", "False"]
