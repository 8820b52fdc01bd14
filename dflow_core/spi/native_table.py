"""How native code reaches a transport: the table of C functions that `dflow/transport.h` describes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

NATIVE_ABI = 1
"""`DFLOW_TRANSPORT_ABI` of the header this version of dflow comes with."""


@dataclass(frozen=True, slots=True)
class NativeTable:
    """A memory group as native code sees it.

    Args:
        address: Address of a `struct dflow_transport` in this process.
        abi: Its `DFLOW_TRANSPORT_ABI`; other numbers than `NATIVE_ABI` need another header.
        keep_alive: The table is valid as long as this object exists.
    """

    address: int
    abi: int
    keep_alive: object = field(repr=False)


def include_dir() -> Path:
    """The folder a C or C++ compiler needs to find `dflow/transport.h`."""
    return Path(__file__).resolve().parent.parent / "include"
