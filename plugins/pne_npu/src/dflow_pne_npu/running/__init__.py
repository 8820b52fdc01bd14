"""One loaded model on one device: which sizes a run has, its buffers, and the order of copies and executions."""

from dflow_pne_npu.running.resident import ResidentStore
from dflow_pne_npu.running.runner import Flight, Runner, Staying, make_runner

__all__ = ["Flight", "ResidentStore", "Runner", "Staying", "make_runner"]
