"""One loaded model on one device: which sizes a run has, its buffers, and the order of copies and executions."""

from dflow_pne_npu.running.runner import Flight, Runner, make_runner
from dflow_pne_npu.running.shapes import ShapeChoice

__all__ = ["Flight", "Runner", "ShapeChoice", "make_runner"]
