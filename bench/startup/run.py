"""Time from `FlowGraph()` to the first result: cold, warm cache, and warm session; and of `import dflow_core`.

    python bench/startup/run.py [--rounds 7]

Each cold and warm-cache figure is a fresh interpreter; the clock starts after `import numpy`, so it holds the import of
dflow, compiling, starting all processes and the first call. Medians over rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = Path(__file__).parents[2] / "tests" / "data" / "models" / "conv_medium.onnx"

GRAPH = """
import json, sys, time
import numpy
began = time.perf_counter()
import dflow_core as df
imported = time.perf_counter()

@df.pyflow
def scale(x):
    return x * 2

@df.pyflow
def top(y):
    return y.argmax()

def build():
    x = df.FlowData("x")
    if sys.argv[2] == "functions":
        return df.FlowGraph([top.fnode()(scale.fnode()(x))], {"cache_dir": sys.argv[1]})
    model = df.GraphProcessPoint(df.Framework.ONNX, sys.argv[3]).fnode(1, 1)
    return df.FlowGraph([top.fnode()(model(scale.fnode()(x)))], {"cache_dir": sys.argv[1]})

image = numpy.zeros((1, 3, 128, 128), numpy.float32)
figures = {"import": imported - began}
with build() as graph:
    graph(image)
    figures["first"] = time.perf_counter() - began
again = time.perf_counter()
with build() as graph:
    graph(image)
    figures["again"] = time.perf_counter() - again
print(json.dumps(figures))
"""


def run(cache: str, kind: str, bytecode: str) -> dict[str, float]:
    """Figures of one fresh interpreter. Modules are compiled before (the first call does it), as pip does."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", GRAPH, cache, kind, str(MODEL)], capture_output=True, text=True, check=True, timeout=120,
        env=environment,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Run all rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    print(f"{'ms, medians of ' + str(rounds):34} import   cold   warm cache   second graph in the session")
    with tempfile.TemporaryDirectory() as bytecode:
        for kind in ("functions", "a model and two functions"):
            measure(kind, rounds, bytecode)


def measure(kind: str, rounds: int, bytecode: str) -> None:
    """Print one row."""
    cold, warm, again, imported = [], [], [], []
    with tempfile.TemporaryDirectory() as cache:
        run(cache, kind.split()[0], bytecode)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            first = run(cache, kind.split()[0], bytecode)
            second = run(cache, kind.split()[0], bytecode)
        cold.append(first["first"])
        warm.append(second["first"])
        again.append(second["again"])
        imported.append(second["import"])
    row = [1000 * statistics.median(values) for values in (imported, cold, warm, again)]
    print(f"{kind:34} {row[0]:6.0f} {row[1]:6.0f} {row[2]:12.0f} {row[3]:14.0f}", flush=True)


if __name__ == "__main__":
    main()
