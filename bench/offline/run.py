"""What offline inference costs, against loops written by hand over the same library.

    python bench/offline/run.py [--rounds 3] [--inputs 1000] [--pages 6] [--only small overhead waiting two pages]

Contenders take turns within a round; figures are medians over rounds, ratios are taken within a round. `small` and
`pages` use both CPUs: two workers of one thread here, one stream of two threads or of one there, what is faster. The
loops by hand copy inputs into their batches and results out of them, as anybody's would. Where others use the machine,
time says little, and CPU time more: both are shown.
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

import dflow_core.builtin
import dflow_core.testing.fakes as fakes
from dflow_core.plugins import load_plugins
from dflow_core.session import DFlowSession
from dflow_core.types import DataType, TensorSpec
from dflow_offline_inference import ModelConfig, OfflineInference
from dflow_offline_inference.requests import Request, State
from dflow_offline_inference.scheduler import Admission, Limits

MODELS = Path(__file__).parents[2] / "tests" / "data" / "models"
Picture: TypeAlias = np.ndarray
CONFIG = {"ENABLE_CPU_PINNING": "NO", "INFERENCE_PRECISION_HINT": "f32"}
BATCHES = (1, 2, 4, 8, 16)


def timed(work: Callable[[], object]) -> float:
    """Seconds of a call."""
    return taken(work)[0]


def taken(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of a call, and seconds of CPU time of all threads."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - cpu


def median_ratio(rival: Sequence[tuple[float, float]], ours: Sequence[tuple[float, float]]) -> str:
    """How many times as fast we are, by time and by CPU time."""
    by_time, by_cpu = (statistics.median(a[what] / b[what] for a, b in zip(rival, ours)) for what in (0, 1))
    return f"{by_time:.3f} by time, {by_cpu:.3f} by CPU time"


class ByHand:
    """A loop over one compiled model.

    Args:
        path: The model.
        threads, streams: As OpenVINO takes them.
    """

    def __init__(self, path: Path, threads: int, streams: int) -> None:
        import openvino

        core = openvino.Core()
        config = {**CONFIG, "INFERENCE_NUM_THREADS": str(threads), "NUM_STREAMS": str(streams)}
        self._ov, self._model = openvino, core.compile_model(core.read_model(path), "CPU", config)
        self._streams = streams

    def loop(self, inputs: Sequence[Picture], batch: int) -> list[Picture]:
        """One call after the other."""
        request, results = self._model.create_infer_request(), []
        buffer = np.empty((batch, *inputs[0].shape[1:]), np.float32)
        for start in range(0, len(inputs), batch):
            part = inputs[start : start + batch]
            feed = part[0] if batch == 1 else np.concatenate(part, out=buffer[: len(part)])
            request.set_input_tensor(self._ov.Tensor(feed, shared_memory=True))
            request.infer()
            answer = request.output_tensors[0].data
            results += [answer[row : row + 1].copy() for row in range(len(part))]
        return results

    def queue(self, inputs: Sequence[Picture]) -> list[Picture]:
        """The library's own asynchronous queue."""
        jobs = self._ov.AsyncInferQueue(self._model, 2 * self._streams)
        results: list[Picture] = [np.empty(0)] * len(inputs)

        def keep(request: object, number: int) -> None:
            results[number] = request.output_tensors[0].data.copy()  # type: ignore[attr-defined]

        jobs.set_callback(keep)
        for number, feed in enumerate(inputs):
            jobs.start_async({0: self._ov.Tensor(feed, shared_memory=True)}, number)
        jobs.wait_all()
        return results


def small(rounds: int, count: int) -> Iterator[str]:
    """The small model: loops by hand with each batch, one by one, and offline inference."""
    path = MODELS / "conv_medium.onnx"
    rng = np.random.default_rng(0)
    distinct = [rng.random((1, 3, 128, 128), np.float32) for _ in range(64)]
    inputs = [distinct[n % 64] for n in range(count)]
    wide, narrow = ByHand(path, 2, 1), ByHand(path, 1, 1)
    contenders: dict[str, Callable[[], object]] = {}
    for batch in BATCHES:
        contenders[f"by hand, 2 threads, batch {batch}"] = lambda b=batch: wide.loop(inputs, b)  # type: ignore[misc]
        contenders[f"by hand, 1 thread, batch {batch}"] = lambda b=batch: narrow.loop(inputs, b)  # type: ignore[misc]
    seen: dict[str, list[tuple[float, float]]] = {}
    configs = {batch: ModelConfig(path, instances=2, threads=1, batch=batch) for batch in (1, 4, 8)}
    ours = {batch: OfflineInference({"m": config}) for batch, config in configs.items()}
    for batch, offline in ours.items():
        offline.init()
        contenders[f"offline inference, batch {batch}"] = lambda o=offline: list(o.map("m", inputs))  # type: ignore[misc]
    contenders["offline inference, one by one"] = lambda: [ours[1].infer("m", x).result() for x in inputs]
    for _ in range(rounds):
        for name, work in contenders.items():
            seen.setdefault(name, []).append(taken(work))
    for offline in ours.values():
        offline.close()
    for name, times in seen.items():
        wall, cpu = (statistics.median(one[what] for one in times) / count * 1e6 for what in (0, 1))
        yield f"{name:36} {wall:8.1f} us, {cpu:8.1f} us of CPU time"
    best = min((name for name in seen if name.startswith("by hand")), key=lambda name: statistics.median(seen[name]))
    mine = min((f"offline inference, batch {batch}" for batch in ours), key=lambda name: statistics.median(seen[name]))
    for rival, goal in ((best, 0.97), ("by hand, 2 threads, batch 1", 1.5), ("offline inference, one by one", 1.5)):
        yield f"{mine} / {rival}: {median_ratio(seen[rival], seen[mine])} (goal {goal})"


def overhead(rounds: int, count: int) -> Iterator[str]:
    """Requests for a model that does nothing."""
    spec = TensorSpec(DataType.FLOAT, (-1, 4), "x")
    point = fakes.FakePoint(lambda x: [x], [spec], [spec])
    feed = np.ones((1, 4), np.float32)
    with DFlowSession({}, load_plugins(builtin=[dflow_core.builtin, fakes])) as session:
        for batch in (1, 8, 32, 64):
            config = ModelConfig(point, batch=batch)
            with OfflineInference({"m": config}, session=session) as offline:
                list(offline.map("m", [feed] * 1000))
                wall, cpu = [], []
                for _ in range(rounds):
                    before = time.process_time()
                    wall.append(timed(lambda o=offline: list(o.map("m", [feed] * (5 * count)))) / (5 * count))
                    cpu.append((time.process_time() - before) / (5 * count))
            yield (f"batch {batch:3}: {statistics.median(wall) * 1e6:6.1f} us a request, "
                   f"{statistics.median(cpu) * 1e6:6.1f} us of CPU time (goal 30)")


def waiting(rounds: int, count: int) -> Iterator[str]:
    """Many waiting requests of mixed priorities."""
    for number in (1_000, 10_000, 100_000):
        times = []
        for _ in range(rounds):
            admission = Admission([Limits("m", "cpu:0", 4)], {})
            made = [Request(n, 0.0, 0, (), rank=float(n - 1000 * (n * 7919 % 5))) for n in range(1, number + 1)]
            times.append(timed(lambda a=admission, m=made: _schedule(a, m)) / number)
        yield f"{number:7} waiting: {statistics.median(times) * 1e6:5.2f} us of scheduling a request"
    spec = TensorSpec(DataType.FLOAT, (-1, 4), "x")
    tracemalloc.start()
    admission = Admission([Limits("m", "cpu:0", 4)], {})
    for n in range(1, 100_001):
        admission.add(Request(n, 0.0, 0, (), rank=float(n)))
    yield f"memory: {tracemalloc.get_traced_memory()[0] / 100_000:.0f} bytes a waiting request of {spec} (goal 2048)"
    tracemalloc.stop()


def _schedule(admission: Admission, requests: Sequence[Request]) -> None:
    for request in requests:
        admission.add(request)
    admission.choose()
    while admission.leaving:
        request = admission.leaving.popleft()
        request.change(State.READY, 0.0)
        admission.release((request,))


def two(rounds: int, count: int) -> Iterator[str]:
    """Two models, each with a worker of one thread: how busy the CPUs are, in all and while both models have work.

    At first Python belongs to who asks for all of it, and when one model has run out of work, a CPU has none.
    """
    models = {name: ModelConfig(MODELS / "conv_medium.onnx", threads=1) for name in ("a", "b")}
    feed = np.ones((1, 3, 128, 128), np.float32)
    shares, between, idle, alone = [], [], [], []
    with OfflineInference(models) as offline:
        for _ in range(rounds):
            start, spare = _clocks(), _idle_seconds()
            handles = [offline.infer(name, feed) for _ in range(count // 2) for name in models]
            asked, ends = _clocks(), []
            for handle in handles[-2:]:
                handle.add_done_callback(lambda _, e=ends: e.append(_clocks()))  # type: ignore[misc]
            for handle in handles:
                handle.result()
            stop = _clocks()
            took = stop[0] - start[0]
            shares.append((stop[1] - start[1]) / (2 * took))
            between.append((ends[0][1] - asked[1]) / (2 * (ends[0][0] - asked[0])))
            idle.append((_idle_seconds() - spare) / (2 * took))
            alone.append((stop[0] - ends[0][0]) / took)
    yield f"two models: {statistics.median(shares):.3f} of 2 cores are ours (goal 0.95 on a machine of one's own),"
    yield f"            {statistics.median(between):.3f} from when all was asked for until one model had no more to do"
    yield f"            (the last {statistics.median(alone):.3f} of the time);"
    yield f"            {1 - statistics.median(idle):.3f} of 2 cores are busy with whatever"


def _clocks() -> tuple[float, float]:
    """Seconds of the clock, and of CPU time."""
    return time.perf_counter(), time.process_time()


def _idle_seconds() -> float:
    return int(Path("/proc/stat").read_text(encoding="ascii").split(None, 5)[4]) / 100


def pages(rounds: int, count: int) -> Iterator[str]:
    """The detector of the demo over pages, against the library's own asynchronous queue."""
    from dflow_ocr.models import find_models

    path = Path(find_models().det)
    rng = np.random.default_rng(0)
    inputs = [rng.random((1, 3, 960, 1280), np.float32) for _ in range(min(count, 6))]
    inputs = [inputs[n % len(inputs)] for n in range(count)]
    rival = ByHand(path, 2, 2)
    queue, *mine = names = ("AsyncInferQueue", "two instances", "two streams")
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    one = ModelConfig(path, threads=2, settings={"streams": "2"})
    configs = {"two instances": ModelConfig(path, instances=2, threads=1), "two streams": one}
    with OfflineInference(configs) as offline:
        for _ in range(rounds):
            seen[queue].append(taken(lambda: rival.queue(inputs)))
            for name in mine:
                seen[name].append(taken(lambda n=name: list(offline.map(n, inputs))))
    for name, times in seen.items():
        rate = count / statistics.median(wall for wall, _ in times)
        yield f"{name:16} {rate:6.2f} pages/s; of the queue: {median_ratio(seen[queue], times)} (goal 0.98)"


SUBJECTS = {"small": small, "overhead": overhead, "waiting": waiting, "two": two, "pages": pages}


def main() -> None:
    """Run the subjects and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--pages", type=int, default=6)
    parser.add_argument("--only", nargs="*", choices=list(SUBJECTS), default=list(SUBJECTS))
    args = parser.parse_args()
    for name in args.only:
        print(f"\n{name}")
        for line in SUBJECTS[name](args.rounds, args.pages if name == "pages" else args.inputs):
            print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
