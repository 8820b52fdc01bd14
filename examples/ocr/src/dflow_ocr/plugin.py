"""What this package registers with dflow."""

from __future__ import annotations

from dflow_core.spi import FlowFunc, UdfEntry, hookimpl

__all__ = ["BUCKET_BATCH", "READ_LINES", "dflow_register_udfs"]

BUCKET_BATCH = "ocr.BucketBatch"
READ_LINES = "ocr.ReadLines"


def _bucket_batch() -> FlowFunc:
    from dflow_ocr.udfs import BucketBatch

    return BucketBatch()


def _read_lines() -> FlowFunc:
    from dflow_ocr.udfs import ReadLines

    return ReadLines()


@hookimpl
def dflow_register_udfs() -> list[UdfEntry]:
    """Batching across pages, and reading of batches."""
    return [
        UdfEntry(
            BUCKET_BATCH, _bucket_batch, {"size": 6, "wait": 0.25, "columns": 0}, holds_inputs=True, n_mapping=True
        ),
        UdfEntry(READ_LINES, _read_lines, {}, holds_inputs=True, n_mapping=True),
    ]
