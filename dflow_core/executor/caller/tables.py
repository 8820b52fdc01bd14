"""The kind of transaction table a graph needs; chosen once, so that none pays for what it does not use."""

from __future__ import annotations

from collections.abc import Sequence

from dflow_core.executor.caller.aligned_table import AlignedTable
from dflow_core.executor.caller.cancelling import Traces
from dflow_core.executor.caller.observed import ObservedAlignedTable, ObservedTable, Observer
from dflow_core.executor.caller.transactions import TransactionTable
from dflow_core.types import AlignLimits


def make_table(
    inputs: int, outputs: Sequence[str], last_id: int, limits: AlignLimits, observer: Observer | None, traces: Traces
) -> TransactionTable:
    """A table for the transactions of a graph.

    Args:
        inputs: Number of root inputs.
        outputs: Names of the root outputs.
        last_id: Ids begin above this.
        limits: How long results of several outputs wait for each other.
        observer: Who is told; None for nobody.
        traces: Takes those that were cancelled.
    """
    if limits and len(outputs) > 1:
        if observer is None:
            return AlignedTable(inputs, outputs, limits, last_id, traces)
        aligned = ObservedAlignedTable(inputs, outputs, limits, last_id, traces)
        aligned.observer = observer
        return aligned
    if observer is None:
        return TransactionTable(inputs, len(outputs), last_id, traces)
    watched = ObservedTable(inputs, len(outputs), last_id, traces)
    watched.observer = observer
    return watched
