"""Many processes that compile one graph into one empty cache folder, some killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from dflow_core.compiler import CompileCache
from dflow_core.model import GraphModel

PROGRAM = """
import os, signal, sys
from dflow_core.compiler import CompileCache
from dflow_core.model import GraphModel

folder, kill = sys.argv[1], int(sys.argv[2])
models = [GraphModel(name="", engine="CPU", framework="onnx", source=bytes([n]) * 300_000) for n in range(8)]
print("ready", flush=True)
sys.stdin.readline()
if kill:
    # Ends this process between the bytes of a file and its place.
    count = [0]
    def replace(source, target, real=os.replace):
        count[0] += 1
        if count[0] == kill:
            os.kill(os.getpid(), signal.SIGKILL)
        real(source, target)
    os.replace = replace
cache = CompileCache(folder)
for n, model in enumerate(models):
    found = cache.load(bytes([n]) * 32)
    if found is None:
        cache.store(bytes([n]) * 32, model, {"node": str(n)})
        found = cache.load(bytes([n]) * 32)
    assert found.model == model, n
"""


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def _finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate("go\n", timeout=60)
    return process.returncode, errors


def test_many_processes_fill_one_cache_and_some_are_killed(tmp_path: Path):
    """BC-086: all succeed; what killed ones left is neither taken for an entry nor in the way."""
    folder = tmp_path / "cache"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), str(0 if i % 3 else i // 3 + 1)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for i in range(8)
    ]
    for process in started:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    first, *others = started  # the first one surely dies: there is nothing to find yet
    results = [_finished(first)]
    for process in others:
        _go(process)
    results += [_finished(process) for process in others]
    assert results[0][0] == -signal.SIGKILL
    assert {code for code, _ in results} <= {0, -signal.SIGKILL}
    assert all(errors == "" for _, errors in results), results
    cache = CompileCache(folder)
    assert len(cache.entries()) == 8
    for n in range(8):
        kept = cache.load(bytes([n]) * 32)
        wanted = GraphModel(name="", engine="CPU", framework="onnx", source=bytes([n]) * 300_000)
        assert kept is not None and kept.model == wanted
    left = [name for name in os.listdir(folder) if name.startswith(".tmp-")]
    assert len(left) == sum(code != 0 for code, _ in results)
    for name in left:
        os.utime(folder / name, (time.time() - 7200,) * 2)
    assert cache.clear()[0] == 8 and os.listdir(folder) == []
