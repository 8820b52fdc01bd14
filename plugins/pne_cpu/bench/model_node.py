"""What a model node costs over a bare bound call, and what a second start saves.

    python plugins/pne_cpu/bench/model_node.py [model.onnx ...] [--rounds N] [--seconds S]

Bare loop: one request, inputs and outputs bound once, `infer()` again and again (OpenVINO's fastest form). Node: what
the executor calls, `CpuWorker.execute`, on read-only inputs with an output array from a pool for each call. Both run in
turn within each round; times are those of the best round, because others on the machine only add, and `rate` is the
median of the rounds' ratios bare/node. `second` is loading from the saved compiled form, over
compiling and loading, each the best of three.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino

from dflow_core.graph import Framework, GraphProcessPoint
from dflow_core.spi import CompileContext, WorkerContext
from dflow_core.types import Array, TensorSpec
from dflow_pne_cpu.engine import CpuEngine
from dflow_pne_cpu.worker import CpuLoader

MODELS = Path(__file__).resolve().parents[3] / "tests" / "data" / "models"
DEFAULT = ("add_float.onnx", "conv_medium.onnx")
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False, "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}


def main() -> int:
    """Run, print a table (or JSON)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[str(MODELS / name) for name in DEFAULT])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.1, help="length of one measurement")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = [measure(path, args.rounds, args.seconds) for path in args.models]
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    print(f"{'model':36} {'bare us':>9} {'node us':>9} {'added us':>9} {'rate':>6} {'first ms':>9} {'second':>7}")
    for row in rows:
        print(f"{row['model']:36} {row['bare_us']:9.1f} {row['node_us']:9.1f} {row['added_us']:9.1f} "
              f"{row['rate']:6.3f} {row['first_start_ms']:9.1f} {row['second_start']:7.2f}")
    return 0


def measure(path: str, rounds: int, seconds: float) -> dict[str, float | str]:
    """One model: bare and node in turn, then the two starts."""
    engine, loader = CpuEngine(), CpuLoader()
    framework = Framework.TENSORFLOW if path.endswith(".pb") else Framework.ONNX
    point = GraphProcessPoint(framework, path, runtime="openvino")
    described = engine.describe(point)
    assert described is not None
    context = CompileContext("bench", {}, len(described.inputs), len(described.outputs))
    model = engine.compile(point, context)
    worker = loader(model, WorkerContext("bench", 0, 1, "cpu:0", 1))
    feeds = [_feed(spec) for spec in model.inputs]
    pool = [np.empty_like(out) for out in worker.execute(feeds, np.empty)]
    node = lambda: worker.execute(feeds, lambda shape, dtype: next(o for o in pool if o.shape == tuple(shape)))  # noqa: E731
    bare = _bare_loop(path, feeds, pool)
    pairs = [(_per_call(bare, seconds), _per_call(node, seconds)) for _ in range(rounds)]
    first, second = [], []
    for _ in range(3):
        start = time.perf_counter()
        again = CpuEngine().compile(point, context)
        compiled = time.perf_counter()
        CpuLoader()(again, WorkerContext("bench", 0, 1, "cpu:0", 1)).close()
        first.append(time.perf_counter() - start)
        second.append(time.perf_counter() - compiled)
    worker.close()
    return {
        "model": Path(path).name,
        "bare_us": min(b for b, _ in pairs) * 1e6,
        "node_us": min(n for _, n in pairs) * 1e6,
        "added_us": (min(n for _, n in pairs) - min(b for b, _ in pairs)) * 1e6,
        "rate": statistics.median(b / n for b, n in pairs),
        "first_start_ms": min(first) * 1e3,
        "second_start": min(second) / min(first),
    }


def _feed(spec: TensorSpec) -> Array:
    sizes = {0: 1, 2: 64, 3: 320}
    shape = [size if size >= 0 else sizes.get(axis, 4) for axis, size in enumerate(spec.shape or ())]
    array = np.random.default_rng(1).random(shape, np.float32)
    array.flags.writeable = False
    return array


def _bare_loop(path: str, feeds: list[Array], outputs: list[Array]) -> Callable[[], object]:
    core = openvino.Core()
    request = core.compile_model(core.read_model(path), "CPU", CONFIG).create_infer_request()
    held = [np.array(feed) for feed in feeds]
    for index, array in enumerate(held):
        request.set_input_tensor(index, openvino.Tensor(array, shared_memory=True))
    for index, array in enumerate(outputs):
        request.set_output_tensor(index, openvino.Tensor(array, shared_memory=True))

    def call() -> object:
        request.infer(share_outputs=True)
        return held

    return call


def _per_call(call: Callable[[], object], seconds: float) -> float:
    for _ in range(5):
        call()
    count, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        call()
        count += 1
    return spent / count


if __name__ == "__main__":
    sys.exit(main())
