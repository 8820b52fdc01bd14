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


_TOGETHER = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from dflow_pne_cpu.runtimes.openvino_runtime import import_quietly
start = threading.Barrier(8)
def load(_):
    start.wait(20)
    return import_quietly()
with ThreadPoolExecutor(8) as pool:
    print(len(set(map(id, pool.map(load, range(8))))), "openvino_telemetry" in sys.modules)
"""


def test_several_threads_may_import_openvino_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", _TOGETHER], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "False"]
