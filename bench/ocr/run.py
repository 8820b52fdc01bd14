"""The demo against its serial form and its rivals, all in one run, in turn.

    python bench/ocr/run.py [--pages 60] [--rounds 1] [--only NAME ...]

Contenders read the same generated pages; models are loaded and one page is read before each clock starts. `rival` are
two whole rapidocr processes that draw pages from one counter. Figures are medians over rounds; ratios are taken
within a round. Results go to stdout and, one JSON object a line, to `out/bench-ocr.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dflow_ocr.demo import run_graph
from dflow_ocr.detect import usual_shape
from dflow_ocr.pages import read_truth, write_pages
from dflow_ocr.pipeline import PipelineSettings
from dflow_ocr.rivals import run_rivals
from dflow_ocr.serial import SerialOcr
from dflow_ocr.truth import true_text_read

SEED = 20261130
CORES = 2
GOALS = (
    ("dflow f32 / rival f32", "dflow f32", "rival f32", 1.05),
    ("dflow f32 / rival as shipped", "dflow f32", "rival onnxruntime", 1.8),
    ("dflow bf16 / rival bf16", "dflow bf16", "rival bf16", 1.05),
    ("dflow bf16 / rival as shipped", "dflow bf16", "rival onnxruntime", 1.8),
    ("dflow f32, one instance each / rival f32", "dflow f32 1x1", "rival f32", 0.95),
)


@dataclass
class Figures:
    """What one contender did in one round; `cpu_seconds` are those of all its processes, a page."""

    name: str
    pages_per_second: float
    memory: int
    cpu_seconds: float
    texts: list[tuple[str, ...]]
    stage_seconds: float = 0.0


def dflow(name: str, **settings: object) -> Callable[[Sequence[Path]], Figures]:
    """A contender that is a graph."""
    def run(pages: Sequence[Path]) -> Figures:
        got = run_graph(pages, PipelineSettings(**settings))  # type: ignore[arg-type]
        return Figures(
            name, got.pages_per_second, got.memory, got.cpu_seconds / len(pages),
            [tuple(text.texts) for text in got.texts], got.stage_seconds,
        )

    return run


def rival(name: str, engine: str) -> Callable[[Sequence[Path]], Figures]:
    """A contender of two whole rapidocr processes."""
    def run(pages: Sequence[Path]) -> Figures:
        got = run_rivals(pages, engine)  # type: ignore[arg-type]
        return Figures(name, got.pages_per_second, got.memory, got.cpu_seconds / len(pages), list(got.texts))

    return run


def serial(name: str, engine: str) -> Callable[[Sequence[Path]], Figures]:
    """The graph's stages one after the other in this process, one thread, the same buckets; a third of the pages.

    `stage_seconds` is the summed time of its stages a page: what the work costs where nothing competes for the CPU.
    """
    def run(pages: Sequence[Path]) -> Figures:
        ocr = SerialOcr(engine, det_shape=usual_shape(pages))  # type: ignore[arg-type]
        ocr.read_page(pages[0])
        few = pages[: max(1, len(pages) // 3)]
        before, used = ocr.times.total(), time.process_time()
        start = time.perf_counter()
        texts = [tuple(text.texts) for text in ocr.read_pages_in_buckets(few)]
        seconds, used = time.perf_counter() - start, time.process_time() - used
        each = (ocr.times.total() - before) / len(few)
        return Figures(name, len(few) / seconds, 0, used / len(few), texts, each)

    return run


CONTENDERS: dict[str, Callable[[Sequence[Path]], Figures]] = {
    "dflow f32": dflow("dflow f32"),
    "rival f32": rival("rival f32", "openvino-f32"),
    "dflow f32 1x1": dflow("dflow f32 1x1", det=1, rec=1, streams=2),
    "dflow f32 own batches": dflow("dflow f32 own batches", batching="rapidocr"),
    "rival onnxruntime": rival("rival onnxruntime", "onnxruntime"),
    "dflow bf16": dflow("dflow bf16", precision="bf16"),
    "rival bf16": rival("rival bf16", "openvino-bf16"),
    "serial f32": serial("serial f32", "openvino-f32"),
}


def main() -> None:
    """Run all rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=list(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    results: dict[str, list[Figures]] = {name: [] for name in args.only}
    with tempfile.TemporaryDirectory() as folder, open(args.out / "bench-ocr.jsonl", "a") as log:
        pages = write_pages(Path(folder), args.pages, SEED)
        truth = read_truth(Path(folder))
        for number in range(args.rounds):
            order = args.only if number % 2 == 0 else args.only[::-1]
            for name in order:
                figures = CONTENDERS[name](pages)
                results[name].append(figures)
                line = {"round": number, "name": name, "pages_per_second": figures.pages_per_second,
                        "memory": figures.memory, "cpu_seconds_per_page": figures.cpu_seconds,
                        "stage_seconds": figures.stage_seconds}
                print(json.dumps(line), file=log, flush=True)
                print(f"  {name}: {figures.pages_per_second:.3f} pages/s", flush=True)
        report(results, [truth[page.name] for page in pages])


def report(results: dict[str, list[Figures]], truth: Sequence[Sequence[str]]) -> None:
    """Print rates, text quality and the goals."""
    print(f"\n{'':26} pages/s   CPU s a page   PSS MB   true text")
    for name, runs in results.items():
        rate = statistics.median(run.pages_per_second for run in runs)
        memory = statistics.median(run.memory for run in runs) / 1e6
        used = statistics.median(run.cpu_seconds for run in runs)
        texts = runs[0].texts
        read = statistics.mean(true_text_read(got, want) for got, want in zip(texts, truth))
        print(f"{name:26} {rate:7.3f}   {used:12.3f}   {memory:6.0f}   {read:9.4f}")
    print()
    for label, one, other, goal in GOALS:
        if results.get(one) and results.get(other):
            ratio = statistics.median(
                a.pages_per_second / b.pages_per_second for a, b in zip(results[one], results[other])
            )
            print(f"{label:45} {ratio:.3f}   (goal {goal})")
    if results.get("serial f32") and results.get("dflow f32"):
        share = statistics.median(
            a.pages_per_second * b.stage_seconds / CORES for a, b in zip(results["dflow f32"], results["serial f32"])
        )
        print(f"{'framework cost: pages/s x stage time / 2 cores':45} {share:.3f}   (goal 0.92)")
    if results.get("dflow f32 1x1") and results.get("rival f32"):
        ratio = statistics.median(
            a.memory / b.memory for a, b in zip(results["dflow f32 1x1"], results["rival f32"])
        )
        print(f"{'memory, one instance each / rival f32':45} {ratio:.3f}   (goal 0.65 at most)")
    if results.get("dflow f32 own batches") and results.get("rival f32"):
        pairs = list(zip(results["dflow f32 own batches"][0].texts, results["rival f32"][0].texts))
        print(f"{'pages with text identical to rapidocr':45} {sum(a == b for a, b in pairs)} of {len(pairs)}")


if __name__ == "__main__":
    main()
