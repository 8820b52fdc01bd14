"""Short words for tests of cases: graphs of one node, executors' processes, gauges, programs of their own."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import dflow_core as df
from dflow_core.spi import GroupStats
from dflow_core.testing.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "data" / "models"
MIB = 1 << 20


def chain(*functions: object, options: dict[str, str] | None = None, mode: str = "process") -> df.FlowGraph:
    """A graph of decorated functions, one behind the other, with the input `x`."""
    end = df.FlowData("x")
    for function in functions:
        end = function.fnode()(end)  # type: ignore[attr-defined]
    return df.FlowGraph([end], options, mode=mode)  # type: ignore[list-item]


def pids(graph: df.FlowGraph) -> list[int]:
    """Process ids of the executors that run."""
    return [s.pid for s in graph.running.deployment.status() if s.pid]  # type: ignore[union-attr]


def stats(graph: df.FlowGraph) -> GroupStats:
    """Use of the graph's shared memory."""
    return graph.running.deployment.group.stats()  # type: ignore[union-attr]


def level(graph: df.FlowGraph) -> int:
    """Messages that wait in the graph's queues."""
    return sum(queue.level for queue in stats(graph).queues)


def check_idle(graph: df.FlowGraph) -> None:
    """Every gauge is 0, and the totals add up."""
    wait_until(lambda: graph.running.client.in_flight == 0)
    counters = graph.counters
    assert counters.fed == counters.delivered + counters.failed + counters.dropped

    def is_empty() -> bool:
        gc.collect()
        return level(graph) == 0 and stats(graph).blocks_in_use == 0

    wait_until(is_empty, 10)


def resident(pid: int | str = "self") -> int:
    """Bytes of a process's own memory (without shared memory)."""
    found = re.search(r"^RssAnon:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def run_program(
    code: str, *arguments: str, folder: Path = ROOT, limit: float = 60, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code as a program of its own and wait for its end."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=limit,
        check=False, stdin=subprocess.DEVNULL,
    )
