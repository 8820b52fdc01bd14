"""What the emulator and the binding add: a run of a model against OpenVINO alone, and a thin call.

    python bench/npu/run.py
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path

from dflow_acl_emulator import emulated_environment, home

HERE = Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "tests/data/models/add_float.onnx"
RUNS = 2000
LIMITS = {"aclmdlExecute": 15.0, "ExecuteAsync + Synchronize": 15.0, "thin call": 1.0}
CALLS = 200_000


def executes(environment: dict[str, str], mode: str) -> dict[str, float]:
    """Microseconds that a run takes more than OpenVINO alone, medians of rounds within one process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        atc = [shutil.which("atc", path=environment["PATH"]) or "atc", "--framework=5", f"--model={MODEL}",
               f"--output={folder / 'm'}", "--soc_version=Ascend310P3"]
        subprocess.run(atc, env=environment, check=True, stdout=subprocess.DEVNULL)
        program = folder / "execute"
        subprocess.run(["cc", "-O2", f"-I{home() / 'include'}", str(HERE / "execute.c"), f"-L{home() / 'lib64'}",
                        "-lascendcl", "-ldl", "-o", str(program)], check=True)
        command = [str(program), str(MODEL), str(folder / "m.om"), environment["ACL_EMULATOR_OPENVINO"], str(RUNS)]
        done = subprocess.run(command, env={**environment, "ACL_EMULATOR_MODE": mode}, check=True, capture_output=True)
    rounds = [[float(text) for text in line.split()] for line in done.stdout.decode().splitlines()]
    return {
        "OpenVINO alone": statistics.median(one[0] for one in rounds),
        "aclmdlExecute": statistics.median(one[1] - one[0] for one in rounds),
        "ExecuteAsync + Synchronize": statistics.median(one[2] - one[0] for one in rounds),
        "aclmdlExecute, CPU time": statistics.median(one[4] - one[3] for one in rounds),
        "async, CPU time": statistics.median(one[5] - one[3] for one in rounds),
    }


def thin_call() -> float:
    """Microseconds of one call through the binding."""
    from dflow_pne_npu.bindings import Acl, Context

    acl = Acl()
    with Context(acl, 0) as context:
        call, handle = acl.aclrtSetCurrentContext, context.handle
        return min(timeit.repeat(lambda: call(handle), number=CALLS, repeat=5)) / CALLS * 1e6


def main() -> int:
    """Print the figures; 1 if one is above its limit."""
    environment = emulated_environment()
    if os.environ.get("ASCEND_HOME_PATH") != environment["ASCEND_HOME_PATH"]:
        os.execve(sys.executable, [sys.executable, __file__], environment)
    print("microseconds above OpenVINO alone, medians")
    over = []
    for mode in ("report", "lenient"):
        for name, value in executes(environment, mode).items():
            print(f"  {mode:8} {name:28} {value:8.2f}")
            over += [name] if value > LIMITS.get(name, float("inf")) else []
    value = thin_call()
    print(f"           {'thin call':28} {value:8.2f}")
    over += ["thin call"] if value > LIMITS["thin call"] else []
    if over:
        print(f"above the limit: {', '.join(over)}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
