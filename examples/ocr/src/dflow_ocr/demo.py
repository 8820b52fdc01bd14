"""The demo: pages through the graph, with everything a person wants to see of it, into `out/`."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

import dflow_core as df
from dflow_core.executor import read_calls, write_timeline
from dflow_core.spi import InstanceStatus, QueueStats
from dflow_ocr.annotate import write_annotated
from dflow_ocr.detect import decode, usual_shape
from dflow_ocr.pages import read_truth, write_pages
from dflow_ocr.picture import draw_graph
from dflow_ocr.pipeline import PipelineSettings, build_graph
from dflow_ocr.recognise import PageText
from dflow_ocr.rivals import cpu_seconds_of, memory_of
from dflow_ocr.serial import SerialOcr
from dflow_ocr.truth import true_text_read

__all__ = ["DemoRun", "run_demo", "run_graph"]

SEED = 20261130
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")


@dataclass
class NodeRow:
    """What one node did."""

    node: str
    instances: int = 0
    calls: int = 0
    busy: float = 0.0
    queue: float = 0.0


@dataclass
class DemoRun:
    """What a run of the graph over some pages gave."""

    texts: list[PageText]
    seconds: float
    nodes: list[NodeRow]
    memory: int
    stage_seconds: float
    cpu_seconds: float = 0.0
    truth: float | None = None
    serial_seconds_per_page: float | None = None
    failed: list[str] = field(default_factory=list)

    @property
    def pages_per_second(self) -> float:
        """Rate from the first page fed to the last one read."""
        return len(self.texts) / self.seconds

    def as_json(self) -> str:
        """The figures, without the texts."""
        return json.dumps({
            "pages": len(self.texts), "seconds": self.seconds, "pages_per_second": self.pages_per_second,
            "memory_bytes": self.memory, "cpu_seconds": self.cpu_seconds, "stage_seconds": self.stage_seconds,
            "true_text_read": self.truth, "serial_seconds_per_page": self.serial_seconds_per_page,
            "failed": self.failed, "nodes": [vars(row) for row in self.nodes],
        })


def run_graph(
    pages: Sequence[Path], settings: PipelineSettings, *, trace: Path | None = None, in_flight: int = 0,
    show_progress: bool = False, warm_up: bool = True,
) -> DemoRun:
    """Read pages with the graph.

    Args:
        pages: Image files.
        settings: How the graph is built.
        trace: Folder for the timeline's raw data.
        in_flight: Pages under way at once; 0 takes one for each call that detectors and recognisers
            make at once, and two more.
        show_progress: Whether to show a progress bar.
        warm_up: Whether every model instance reads the first page once before the clock starts.

    Returns:
        Texts, rate, memory and what each node did.
    """
    options = {"trace": str(trace)} if trace else {}
    settings = replace(settings, det_shapes=settings.det_shapes or usual_shape(pages))
    window = in_flight or settings.det + settings.streams * settings.rec + 2
    with build_graph(settings, options) as graph:
        if warm_up:
            list(graph.map([str(pages[0])] * max(settings.det, settings.rec)))
        before = _busy(graph)
        used = _cpu_seconds(graph)
        levels: dict[str, list[int]] = defaultdict(list)
        start = time.perf_counter()
        texts: list[PageText] = []
        stream = graph.map([str(p) for p in pages], in_flight=window, progress=show_progress)
        for text in stream:
            assert isinstance(text, PageText)
            texts.append(text)
            for queue in _queues(graph):
                levels[queue.name].append(queue.level)
        seconds = time.perf_counter() - start
        used = _cpu_seconds(graph) - used
        memory = sum(memory_of(status.pid) for status in _unique_processes(graph))
        rows = _rows(graph, before, levels)
    return DemoRun(texts, seconds, rows, memory, sum(row.busy for row in rows), used)


def run_demo(
    out: Path, count: int, folder: Path | None, settings: PipelineSettings, serial_pages: int, console: Console
) -> DemoRun:
    """Run the demo.

    Args:
        out: Where everything is written; made anew.
        count: Pages to generate, if no folder is given.
        folder: A user's own images.
        settings: How the graph is built.
        serial_pages: Pages to read serially for comparison; 0 for none.
        console: Where to print.

    Returns:
        The run.

    Raises:
        FileNotFoundError: The folder holds no images.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    truth: dict[str, list[str]] = {}
    if folder is None:
        console.print(f"rendering {count} pages (seed {SEED})")
        pages = write_pages(out / "pages", count, SEED)
        truth = read_truth(out / "pages")
    else:
        pages = sorted(p for p in folder.iterdir() if p.suffix.lower() in _IMAGES)
        if not pages:
            raise FileNotFoundError(f"{folder} holds no images ({', '.join(_IMAGES)})")
    with tempfile.TemporaryDirectory(prefix="dflow-ocr-") as trace:
        run = run_graph(pages, settings, trace=Path(trace), show_progress=True)
        write_timeline(read_calls(trace), out / "timeline.json")
    if truth:
        shares = [true_text_read(t.texts, truth[p.name]) for p, t in zip(pages, run.texts, strict=True)]
        run.truth = sum(shares) / len(shares)
    if serial_pages:
        run.serial_seconds_per_page = _serial(pages[:serial_pages], settings)
    _write_results(out, pages, run, settings)
    _print_results(console, pages, run, settings, out)
    return run


def _busy(graph: df.FlowGraph) -> dict[tuple[str, int], tuple[int, float]]:
    assert graph.running.deployment is not None
    return {(s.node, s.instance): (s.calls, s.busy) for s in graph.running.deployment.status()}


def _queues(graph: df.FlowGraph) -> Sequence[QueueStats]:
    assert graph.running.deployment is not None
    return graph.running.deployment.group.stats().queues


def _unique_processes(graph: df.FlowGraph) -> Sequence[InstanceStatus]:
    assert graph.running.deployment is not None
    return list({s.pid: s for s in graph.running.deployment.status() if s.pid}.values())


def _cpu_seconds(graph: df.FlowGraph) -> float:
    """CPU time of all processes of the graph and of this one."""
    return time.process_time() + sum(cpu_seconds_of(status.pid) for status in _unique_processes(graph))


def _rows(
    graph: df.FlowGraph, before: dict[tuple[str, int], tuple[int, float]], levels: dict[str, list[int]]
) -> list[NodeRow]:
    assert graph.running.deployment is not None
    rows: dict[str, NodeRow] = {}
    for status in graph.running.deployment.status():
        calls, busy = before.get((status.node, status.instance), (0, 0.0))
        row = rows.setdefault(status.node, NodeRow(status.node))
        row.instances += 1
        row.calls += status.calls - calls
        row.busy += status.busy - busy
    for instance in graph.running.deployment.plan.instances:
        for name in instance.inputs:
            seen = levels.get(name, [])
            if seen and instance.index == 0:
                rows[instance.model].queue = max(rows[instance.model].queue, sum(seen) / len(seen))
    return list(rows.values())


def _serial(pages: Sequence[Path], settings: PipelineSettings) -> float:
    """Seconds a page, read one after the other in one process with one thread, after a first one to warm up."""
    engine = "onnxruntime" if settings.runtime == "onnxruntime" else f"openvino-{settings.precision}"
    ocr = SerialOcr(engine)  # type: ignore[arg-type]
    ocr.read_page(pages[0])
    start = time.perf_counter()
    for page in pages:
        ocr.read_page(page)
    return (time.perf_counter() - start) / len(pages)


def _write_results(out: Path, pages: Sequence[Path], run: DemoRun, settings: PipelineSettings) -> None:
    (out / "annotated").mkdir()
    (out / "text").mkdir()
    for page, text in zip(pages, run.texts, strict=True):
        write_annotated(decode(page), text, out / "annotated" / f"{page.stem}.png")
        (out / "text" / f"{page.stem}.txt").write_text("\n".join(text.texts) + "\n", encoding="utf-8")
    graph = build_graph(settings)
    (out / "graph.mmd").write_text(graph.to_mermaid() + "\n", encoding="utf-8")
    draw_graph(graph, out / "graph.png")
    (out / "graph.dot").write_text(graph.to_dot() + "\n", encoding="utf-8")
    (out / "figures.json").write_text(run.as_json() + "\n", encoding="utf-8")


def _print_results(
    console: Console, pages: Sequence[Path], run: DemoRun, settings: PipelineSettings, out: Path
) -> None:
    for page, text in list(zip(pages, run.texts, strict=True))[:2]:
        console.print(f"\n[bold]{page.name}[/bold]")
        for line in text.lines:
            console.print(f"  {line.text}", markup=False, highlight=False)
    table = Table(title=f"\n{len(pages)} pages, {settings.runtime} {settings.precision}, {settings.batching}")
    for column in ("node", "instances", "calls", "busy s", "ms a call", "mean queue"):
        table.add_column(column, justify="left" if column == "node" else "right")
    for row in run.nodes:
        each = 1000 * row.busy / row.calls if row.calls else 0.0
        table.add_row(
            row.node, str(row.instances), str(row.calls), f"{row.busy:.2f}", f"{each:.2f}", f"{row.queue:.1f}"
        )
    console.print(table)
    console.print(f"{run.pages_per_second:.2f} pages/s, {run.memory / 1e6:.0f} MB in all processes (PSS)")
    if run.serial_seconds_per_page is not None:
        ratio = run.pages_per_second * run.serial_seconds_per_page
        console.print(f"serial: {1 / run.serial_seconds_per_page:.2f} pages/s; the graph is {ratio:.2f} times as fast")
    if run.truth is not None:
        console.print(f"true text read: {run.truth:.4f}")
    console.print(
        f"results in {out}/: text/, annotated/, graph.png (.mmd, .dot), figures.json, timeline.json (for Perfetto)"
    )
