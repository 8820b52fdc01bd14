"""Registers the built-in UDFs; imports none of them before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dflow_core.spi import UdfEntry, hookimpl

if TYPE_CHECKING:
    from dflow_core.spi import FlowFunc

DFLOW_SPI_VERSION = 1


@hookimpl
def dflow_register_udfs() -> Sequence[UdfEntry]:
    """TimeBatch, CountBatch and Unbatch.

    All three hold inputs, so that the framework does not end transactions when a call sends nothing: they end every one
    themselves.
    """
    return [
        UdfEntry(
            "_BuiltIn_TimeBatch", _time_batch, holds_inputs=True, n_mapping=True,
            parameters={
                "window": None, "batch_dim": -1, "drop_remainder": False, "timeout": 0.0,
                "max_items": 8192, "max_bytes": 1 << 30,
            },
        ),
        UdfEntry(
            "_BuiltIn_CountBatch", _count_batch, holds_inputs=True, n_mapping=True,
            parameters={"batch_size": None, "slide_stride": 0, "timeout": 0.0, "padding": False},
        ),
        UdfEntry(
            "_BuiltIn_Unbatch", _unbatch, holds_inputs=True, n_mapping=True,
            parameters={"batch_dim": -1, "padding": False},
        ),
    ]


def _time_batch() -> FlowFunc:
    from dflow_builtin_udf.time_batch import TimeBatch

    return TimeBatch()


def _count_batch() -> FlowFunc:
    from dflow_builtin_udf.count_batch import CountBatch

    return CountBatch()


def _unbatch() -> FlowFunc:
    from dflow_builtin_udf.unbatch import Unbatch

    return Unbatch()
