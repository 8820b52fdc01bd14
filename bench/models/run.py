"""What a graph costs around models: one small model, and a chain of two real ones, against bare OpenVINO loops.

    python bench/models/run.py [--rounds 5] [--secs 4]

All models run in float32 with one thread each. `bare` is a loop over one bound request in a process of its own. The
chain is the recogniser (1x3x48x320) and then the detector (1x3x256x256) of rapidocr, with a Python function between
them that makes the detector's feed; `two whole` are two processes that each do both in turn. Everything is measured in
turn within a round; figures are medians over rounds, ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import dflow_core as df
from dflow_ocr.models import find_models

MEDIUM = Path(__file__).parents[2] / "tests" / "data" / "models" / "conv_medium.onnx"
REC, DET = (1, 3, 48, 320), (1, 3, 256, 256)
CONFIG = {
    "INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1", "ENABLE_CPU_PINNING": "NO", "INFERENCE_PRECISION_HINT": "f32",
}


@df.pyflow
def between(answer: np.ndarray) -> np.ndarray:
    """A feed for the detector; its content does not matter."""
    return np.full(DET, float(answer[0, 0, 0]), np.float32)


def bare(models: list[tuple[str, tuple[int, ...]]], secs: float, answer: Connection) -> None:
    """Calls a second of bound requests, run one after the other."""
    import openvino

    core = openvino.Core()
    requests = []
    for path, shape in models:
        request = core.compile_model(core.read_model(path), "CPU", CONFIG).create_infer_request()
        request.set_input_tensor(openvino.Tensor(np.zeros(shape, np.float32), shared_memory=True))
        requests.append(request)
    for request in requests:
        request.infer()
    answer.send("ready")
    answer.recv()
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < secs:
        for request in requests:
            request.infer()
        calls += 1
    answer.send(calls / (time.perf_counter() - start))


def bare_rate(models: list[tuple[str, tuple[int, ...]]], secs: float, processes: int = 1) -> float:
    """Summed rate of some processes at once."""
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(processes)]
    workers = [context.Process(target=bare, args=(models, secs, far)) for _, far in pairs]
    for worker in workers:
        worker.start()
    for near, _ in pairs:
        near.recv()
    for near, _ in pairs:
        near.send("go")
    rate = sum(float(near.recv()) for near, _ in pairs)
    for worker in workers:
        worker.join()
    return rate


def graph_rate(graph: df.FlowGraph, feed: np.ndarray, secs: float, in_flight: int) -> float:
    """Results a second while the graph is full: a bare loop neither fills up nor runs dry either."""
    is_over = False

    def feeds() -> Iterator[np.ndarray]:
        while not is_over:
            yield feed

    rate, start = 0.0, 0.0
    with graph:
        graph(feed)
        for number, _ in enumerate(graph.map(feeds(), in_flight=in_flight), -in_flight):
            now = time.perf_counter()
            if number == 0:
                start = now
            elif number > 0 and not is_over and now - start > secs:
                rate, is_over = number / (now - start), True
    return rate


def one_model() -> df.FlowGraph:
    """A graph of `conv_medium` alone."""
    node = df.GraphProcessPoint(df.Framework.ONNX, MEDIUM).fnode(1, 1)
    node.set_options(threads=1)
    return df.FlowGraph([node(df.FlowData("x"))])


def chain(instances: int) -> df.FlowGraph:
    """Recogniser, function, detector."""
    files = find_models()
    rec = df.GraphProcessPoint(df.Framework.ONNX, files.rec).fnode(1, 1, "rec")
    det = df.GraphProcessPoint(df.Framework.ONNX, files.det).fnode(1, 1, "det")
    for node in (rec, det):
        node.set_options(instances=instances, threads=1)
    return df.FlowGraph([det(between.fnode()(rec(df.FlowData("x"))))])


def main() -> None:
    """Run all rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--secs", type=float, default=4.0)
    args = parser.parse_args()
    files = find_models()
    medium, small = [(str(MEDIUM), (1, 3, 128, 128))], np.zeros((1, 3, 128, 128), np.float32)
    rec, det, line = [(str(files.rec), REC)], [(str(files.det), DET)], np.zeros(REC, np.float32)
    measures: dict[str, Callable[[], float]] = {
        "conv_medium, bare": lambda: bare_rate(medium, args.secs),
        "conv_medium, graph": lambda: graph_rate(one_model(), small, args.secs, 8),
        "recogniser, bare": lambda: bare_rate(rec, args.secs),
        "detector, bare": lambda: bare_rate(det, args.secs),
        "chain, graph of one instance each": lambda: graph_rate(chain(1), line, args.secs, 8),
        "chain, two whole processes": lambda: bare_rate(rec + det, args.secs, 2),
        "chain, graph of two instances each": lambda: graph_rate(chain(2), line, args.secs, 12),
    }
    seen: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(args.rounds):
        for name, measure in measures.items():
            seen[name].append(measure())
    for name, rates in seen.items():
        print(f"{name:40} {statistics.median(rates):8.1f} /s  ({min(rates):.1f}..{max(rates):.1f})")
    slower = [min(a, b) for a, b in zip(seen["recogniser, bare"], seen["detector, bare"])]
    ratios = {
        "conv_medium: graph / bare (goal 0.9)": (seen["conv_medium, graph"], seen["conv_medium, bare"]),
        "chain: graph / slower model alone (goal 0.95)": (seen["chain, graph of one instance each"], slower),
        "chain: two instances / two whole (goal 0.95)": (
            seen["chain, graph of two instances each"], seen["chain, two whole processes"]
        ),
    }
    for name, (ours, theirs) in ratios.items():
        print(f"{name:50} {statistics.median(a / b for a, b in zip(ours, theirs)):.3f}")


if __name__ == "__main__":
    main()
