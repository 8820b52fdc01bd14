"""Registers the functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dflow_core.spi import UdfEntry, hookimpl

if TYPE_CHECKING:
    from dflow_core.spi import FlowFunc

DFLOW_SPI_VERSION = 1


@hookimpl
def dflow_register_udfs() -> Sequence[UdfEntry]:
    """Moving average and threshold."""
    return [
        UdfEntry("acme.moving_average", _moving_average, {"window": None}),
        UdfEntry("acme.threshold", _threshold, {"limit": 0.5}),
    ]


def _moving_average() -> FlowFunc:
    from acme_udfs.functions import MovingAverage

    return MovingAverage()


def _threshold() -> FlowFunc:
    from acme_udfs.functions import Threshold

    return Threshold()
