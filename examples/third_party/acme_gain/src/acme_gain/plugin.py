"""Registers the function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dflow_core.spi import LibraryFunc, UdfEntry, hookimpl

DFLOW_SPI_VERSION = 1
LIBRARY = Path(__file__).resolve().with_name("libacme_gain.so")


@hookimpl
def dflow_register_udfs() -> Sequence[UdfEntry]:
    """Gain."""
    return [UdfEntry("acme.gain", _gain, {"factor": 1.0})]


def _gain() -> LibraryFunc:
    return LibraryFunc(str(LIBRARY), "gain")
