"""The benchmark of hops measures what it says it does: a short run of our own rows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[3] / "bench" / "hop" / "run.py"


@pytest.mark.timeout(180)
def test_hop_prints_rates_of_ours_and_of_the_limit(tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    options = ["--quick", "--only", "queues of 64", "four", "round", "--lines", "dflow", "--sizes", "4096"]
    command = [sys.executable, str(RUN), *options, "--out", str(figures)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [json.loads(line) for line in figures.read_text(encoding="utf-8").splitlines()]
    assert all(row["value"] > 0 for row in rows)
    lines = {"dflow in place", "dflow copy in", "dflow in place, no spin"}
    if shutil.which("cc"):
        lines |= {"limit: ring in C", "limit: ring in C, no spin", "dflow, C to C"}
    assert {row["line"] for row in rows} == lines
    read = [sys.executable, str(RUN), "--read", str(figures)]
    again = subprocess.run(read, capture_output=True, text=True, timeout=60)
    assert again.stdout == done.stdout
    assert "*dflow in place / limit*" in done.stdout or not shutil.which("cc")
