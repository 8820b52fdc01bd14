"""The graph: decode -> detect -> find lines -> classify angles -> turn -> recognise -> read -> put together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import dflow_core as df
from dflow_ocr import nodes
from dflow_ocr.batching import BATCH, COLUMNS
from dflow_ocr.models import find_models
from dflow_ocr.plugin import BUCKET_BATCH, READ_LINES
from dflow_ocr.recmodel import logits_model

__all__ = ["PipelineSettings", "build_graph"]


@dataclass(frozen=True)
class PipelineSettings:
    """How the graph is built.

    Args:
        runtime: `openvino` or `onnxruntime`.
        precision: `f32` or `bf16`.
        batching: `buckets` across pages, or `rapidocr` for rapidocr's own batches.
        det, rec: Instances of the detector (the angle classifier goes along) and of the recogniser.
        streams: Calls each instance of the recogniser runs at the same time, on one copy of the weights.
        threads: Threads of each model instance.
        wait: Seconds a line waits for company in its bucket.
        size: Lines in a full bucket.
        columns: Most columns of pixels in a bucket's batch; 0 is no limit.
        det_shapes: Shapes of pages, as the detector takes them, that it is compiled for besides all others:
            `1,3,960,1280|1,3,736,992`.
    """

    runtime: str = "openvino"
    precision: str = "f32"
    batching: Literal["buckets", "rapidocr"] = "buckets"
    det: int = 2
    rec: int = 2
    streams: int = 1
    threads: int = 1
    wait: float = 0.1
    size: int = BATCH
    columns: int = COLUMNS
    det_shapes: str = ""


@lru_cache(maxsize=1)
def _recogniser() -> bytes:
    return logits_model(find_models().rec)


def build_graph(settings: PipelineSettings | None = None, options: dict[str, str] | None = None) -> df.FlowGraph:
    """Build the OCR graph.

    Args:
        settings: How.
        options: Graph options of dflow.

    Returns:
        A graph with one input, the path or the bytes of a page, and one output, its `PageText`.
    """
    s = settings or PipelineSettings()
    files = find_models()
    engine = {"runtime": s.runtime, "precision": s.precision}
    det = df.GraphProcessPoint(df.Framework.ONNX, files.det, **engine, fixed_shapes=s.det_shapes).fnode(1, 1, "det")
    cls = df.GraphProcessPoint(df.Framework.ONNX, files.cls, **engine).fnode(1, 1, "cls")
    rec = df.GraphProcessPoint(df.Framework.ONNX, _recogniser(), **engine, streams=str(s.streams)).fnode(1, 1, "rec")
    det.set_options(instances=s.det, threads=s.threads)
    cls.set_options(instances=1, threads=s.threads)
    rec.set_options(instances=s.rec, threads=s.threads)
    page = df.FlowData("page")
    opening = nodes.open_page.fnode()
    # A detector's feed is 15 MB and a recogniser's answer 6 MB: enough to keep those behind busy, no more.
    opening.set_queue(0, depth=2)
    rec.set_queue(0, depth=2)
    feed, opened = opening(page)
    angles, lines, boxes = nodes.find_lines.fnode()(det(feed), opened)
    odds = cls(angles)
    read = df.builtin_node(READ_LINES, 1, 1, "read")
    if s.batching == "rapidocr":
        read_lines = nodes.collect.fnode()(read(rec(nodes.upright_batches.fnode()(odds, lines))))
        text = nodes.assemble.fnode()(read_lines, boxes, lines)
    else:
        bucket = df.builtin_node(BUCKET_BATCH, 1, 1, "bucket", size=s.size, wait=s.wait, columns=s.columns)
        read_lines = nodes.collect.fnode()(read(rec(bucket(nodes.upright_lines.fnode()(odds, lines)))))
        text = nodes.assemble_in_order.fnode("assemble")(read_lines, boxes)
    return df.FlowGraph([text], options, name="ocr")
