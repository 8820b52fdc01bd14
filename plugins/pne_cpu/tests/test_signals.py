"""Signals reach a program that used the engine and let it go."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import gc, signal, sys, threading, numpy as np
from dflow_core.graph import Framework, GraphProcessPoint
from dflow_core.spi import CompileContext, WorkerContext
from dflow_pne_cpu.engine import CpuEngine
from dflow_pne_cpu.worker import CpuLoader

engine, loader = CpuEngine(), CpuLoader()
model = engine.compile(GraphProcessPoint(Framework.ONNX, sys.argv[1]), CompileContext("n", {}, 1, 1))
held = [engine, loader, loader(model, WorkerContext("n", 0, 1, "cpu:0", 1))]
held[2].execute([np.zeros((1, 3, 128, 128), np.float32)], np.empty)
del engine, loader

def let_go():
    held.clear()
    gc.collect()

thread = threading.Thread(target=let_go)
thread.start()
thread.join()
signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
signal.raise_signal(signal.SIGUSR1)
"""


def test_signal_after_another_thread_let_the_engine_go(models: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(models / "conv_medium.onnx")], capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stdout) == (0, "handled\n"), done.stderr
