"""The stages as a graph: the same text as rapidocr's, and everything the demo writes."""

from __future__ import annotations

import json

import pytest
from PIL import Image
from rich.console import Console

from dflow_ocr.demo import run_demo, run_graph
from dflow_ocr.pages import read_truth, write_pages
from dflow_ocr.pipeline import PipelineSettings, build_graph
from dflow_ocr.serial import SerialOcr
from dflow_ocr.truth import true_text_read


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return write_pages(tmp_path_factory.mktemp("pages"), 2, 5)


@pytest.mark.timeout(120)
def test_graph_with_rapidocrs_batches_gives_the_serial_text(pages):
    ocr = SerialOcr("openvino-f32")
    run = run_graph(pages, PipelineSettings(batching="rapidocr", det=1, rec=2), warm_up=False)
    assert [text.texts for text in run.texts] == [ocr.read_page(page).texts for page in pages]


@pytest.mark.timeout(120)
def test_demo_writes_everything_and_reads_nearly_all(tmp_path):
    run = run_demo(tmp_path / "out", 2, None, PipelineSettings(wait=0.2), 0, Console(quiet=True))
    out = tmp_path / "out"
    truth = read_truth(out / "pages")
    assert run.truth is not None and run.truth > 0.95
    assert sum(true_text_read(t.texts, truth[f"page-{n:03}.png"]) for n, t in enumerate(run.texts)) / 2 == run.truth
    assert len(list((out / "annotated").glob("*.png"))) == len(list((out / "text").glob("*.txt"))) == 2
    events = json.loads((out / "timeline.json").read_text())["traceEvents"]
    assert {event["name"] for event in events if event["ph"] == "X"} >= {"det", "rec", "find_lines", "assemble"}
    assert {row.node for row in run.nodes} >= {"open_page", "det", "cls", "rec", "bucket", "read"}
    with Image.open(out / "graph.png") as picture:
        assert picture.size[0] > 500
    figures = json.loads((out / "figures.json").read_text())
    assert figures["pages"] == 2
    assert figures["cpu_seconds"] > 0.5


def test_page_without_a_line_has_no_text():
    import cv2
    import numpy as np

    blank = cv2.imencode(".png", np.full((400, 600, 3), 255, np.uint8))[1].tobytes()
    with build_graph(PipelineSettings(det=1, rec=1)) as graph:
        assert graph(blank, timeout=50).texts == []


def test_broken_image_ends_its_own_page_only(pages):
    import dflow_core as df

    with build_graph(PipelineSettings(det=1, rec=1, wait=0.1)) as graph:
        results = list(graph.map([b"not an image", pages[0].read_bytes()], errors="return", timeout=50))
    assert isinstance(results[0], df.NodeError) and "PageUnreadableError" in str(results[0])
    assert results[1].texts
