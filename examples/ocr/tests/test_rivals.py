from __future__ import annotations

import os
import time

import pytest

from dflow_ocr.rivals import cpu_seconds_of, memory_of, run_rivals


def test_two_whole_processes_share_the_pages(page_files):
    run = run_rivals(page_files[2:4], "openvino-f32")
    assert run.processes == 2
    assert len(run.texts) == 2
    assert all(len(lines) > 3 for lines in run.texts)
    assert run.pages_per_second == pytest.approx(2 / run.seconds)
    assert run.memory > 200e6
    assert 0 < run.cpu_seconds < 3 * run.seconds
    assert "OMP_NUM_THREADS" in os.environ


def test_a_process_that_cannot_start_ends_the_run(page_files, monkeypatch):
    monkeypatch.setattr("dflow_ocr.rivals._PATIENCE", 30.0)
    with pytest.raises(RuntimeError, match="ended early"):
        run_rivals([page_files[0].with_name("none.png")], "openvino-f32", processes=1)


def test_memory_of_this_process_is_told():
    assert memory_of(os.getpid()) > 50e6


def test_cpu_time_of_this_process_is_told():
    before, told = time.process_time(), cpu_seconds_of(os.getpid())
    assert before - 0.05 <= told <= time.process_time() + 0.05
