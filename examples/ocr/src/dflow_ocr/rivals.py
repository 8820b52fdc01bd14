"""What the example is measured against: whole rapidocr processes that draw pages from one counter."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from queue import Empty
from typing import Any, Final, TypeVar

from dflow_ocr.engine import EngineName, openvino_config
from dflow_pne_cpu.runtimes.signal_stack import signal_stack_kept

__all__ = ["RivalRun", "build_rapidocr", "cpu_seconds_of", "memory_of", "run_rivals"]

_THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_PATIENCE: Final = 600.0

ItemT = TypeVar("ItemT")


@dataclass(frozen=True)
class RivalRun:
    """What some whole rapidocr processes did with a set of pages."""

    engine: EngineName
    processes: int
    seconds: float
    memory: int
    texts: tuple[tuple[str, ...], ...]
    cpu_seconds: float = 0.0

    @property
    def pages_per_second(self) -> float:
        """The rate of all processes together, from the first page taken to the last one done."""
        return len(self.texts) / self.seconds


def build_rapidocr(engine: EngineName, threads: int = 1) -> Any:
    """Load rapidocr as a user would, but with the engine, precision and threads stated.

    Args:
        engine: The engine and precision.
        threads: How many threads one call of a model uses.

    Returns:
        A `rapidocr.RapidOCR`.
    """
    import cv2
    from rapidocr import EngineType, RapidOCR

    cv2.setNumThreads(threads)
    params: dict[str, object] = {"Global.log_level": "error"}
    if engine == "onnxruntime":
        params["EngineConfig.onnxruntime.intra_op_num_threads"] = threads
        params["EngineConfig.onnxruntime.inter_op_num_threads"] = 1
        kind = EngineType.ONNXRUNTIME
    else:
        kind = EngineType.OPENVINO
    params.update({f"{part}.engine_type": kind for part in ("Det", "Cls", "Rec")})
    if engine == "onnxruntime":
        return _loaded(RapidOCR(params=params))
    properties = openvino_config("bf16" if engine == "openvino-bf16" else "f32", threads)
    with _openvino_properties(properties), signal_stack_kept():
        return _loaded(RapidOCR(params=params))


def run_rivals(sources: Sequence[Path], engine: EngineName, processes: int = 2) -> RivalRun:
    """Let whole rapidocr processes read pages.

    Each process loads its models and reads the first page before the clock starts. OpenCV and the numeric libraries
    are held to one thread each.

    Args:
        sources: The image files.
        engine: The engine and precision.
        processes: How many processes.

    Returns:
        Time, memory and texts.

    Raises:
        RuntimeError: A process ended before its work was done.
    """
    context = multiprocessing.get_context("spawn")
    shared = _Shared.make(context)
    with _one_thread_each():
        workers = [context.Process(target=_work, args=(list(sources), engine, shared)) for _ in range(processes)]
        for worker in workers:
            worker.start()
    try:
        _wait_until_ready(shared.ready, workers)
        pids = [worker.pid for worker in workers if worker.pid is not None]
        used = sum(map(cpu_seconds_of, pids))
        shared.go.set()
        start = time.perf_counter()
        texts = dict(_collect(shared.results, workers, len(sources)))
        seconds = time.perf_counter() - start
        used = sum(map(cpu_seconds_of, pids)) - used
        memory = sum(map(memory_of, pids))
    finally:
        shared.leave.set()
        for worker in workers:
            worker.join(_PATIENCE)
    return RivalRun(engine, processes, seconds, memory, tuple(texts[number] for number in range(len(sources))), used)


def cpu_seconds_of(pid: int) -> float:
    """Tell how much CPU time a process has used, all its threads, in user code and in the kernel.

    Args:
        pid: The process.

    Returns:
        Seconds.
    """
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> int:
    """Measure the memory of a process, shared pages counted by share.

    Args:
        pid: The process.

    Returns:
        Its proportional set size (PSS) in bytes.

    Raises:
        RuntimeError: The system does not tell.
    """
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"the system tells no PSS of process {pid}")


@dataclass(frozen=True)
class _Shared:
    """What the processes of one run hold in common."""

    ready: Queue[None]
    go: Event
    leave: Event
    counter: Any
    results: Queue[tuple[int, tuple[str, ...]]]

    @classmethod
    def make(cls, context: SpawnContext) -> _Shared:
        return cls(context.Queue(), context.Event(), context.Event(), context.Value("i", 0), context.Queue())

    def draw(self, limit: int) -> Iterator[int]:
        """Draw page numbers until there are none left."""
        while True:
            with self.counter.get_lock():
                number = self.counter.value
                self.counter.value += 1
            if number >= limit:
                return
            yield number


def _work(sources: list[Path], engine: EngineName, shared: _Shared) -> None:
    ocr = build_rapidocr(engine)
    ocr(str(sources[0]))
    shared.ready.put(None)
    shared.go.wait(_PATIENCE)
    for number in shared.draw(len(sources)):
        shared.results.put((number, tuple(ocr(str(sources[number])).txts or ())))
    # Stay until the memory is measured.
    shared.leave.wait(_PATIENCE)


def _wait_until_ready(ready: Queue[None], workers: Sequence[SpawnProcess]) -> None:
    for _ in workers:
        _next(ready, workers)


def _collect(
    results: Queue[tuple[int, tuple[str, ...]]], workers: Sequence[SpawnProcess], count: int
) -> Iterator[tuple[int, tuple[str, ...]]]:
    for _ in range(count):
        yield _next(results, workers)


def _next(source: Queue[ItemT], workers: Sequence[SpawnProcess]) -> ItemT:
    """Take the next item, looking now and then whether the processes still live."""
    while True:
        try:
            return source.get(timeout=1.0)
        except Empty:
            gone = [worker.exitcode for worker in workers if worker.exitcode is not None]
            if gone:
                raise RuntimeError(f"a rapidocr process ended early, with exit codes {gone}") from None


def _loaded(ocr: Any) -> Any:
    """Have the models loaded now: rapidocr loads each at its first use."""
    for load in ("_load_det_model", "_load_cls_model", "_load_rec_model"):
        getattr(ocr, load)()
    return ocr


@contextmanager
def _openvino_properties(properties: dict[str, str]) -> Iterator[None]:
    """Have rapidocr hand these properties to OpenVINO: its own configuration knows no precision."""
    from rapidocr.inference_engine.openvino import main

    class Stated:
        def __init__(self, _config: object) -> None:
            """Ignore rapidocr's own configuration."""

        def get_config(self) -> dict[str, str]:
            return properties

    original = main.CPUConfig
    main.CPUConfig = Stated
    try:
        yield
    finally:
        main.CPUConfig = original


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Hold the numeric libraries of processes started meanwhile to one thread."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
