"""C to C through the table that a transport exports (`dflow/transport.h`); Python only starts both ends."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import measure
from channels import DflowLine, Shape

from dflow_core.spi import MemoryGroup, NativeTable


def open_library(path: Path) -> ctypes.CDLL:
    """The compiled `table_hop.c`."""
    library = ctypes.CDLL(str(path))
    library.consume.restype = ctypes.c_double
    library.consume.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    library.produce.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_double, ctypes.c_double]
    return library


def table_of(member: MemoryGroup) -> NativeTable:
    """Its table; there is one, as the transport is ours."""
    table = member.native_table()
    assert table is not None
    return table


def sink(line: DflowLine, report: Any, library: Path) -> None:
    """Receive, report the rate."""
    table = table_of(line.member(1))
    report.send("ready")
    report.send([open_library(library).consume(table.address, 0)])


def source(line: DflowLine, report: Any, library: Path, size: int, warm: float, secs: float) -> None:
    """Send."""
    table = table_of(line.member(0))
    code = open_library(library).produce(table.address, 0, size, warm, secs)
    assert code == 0, code


def rate(library: Path, shape: Shape, warm: float, secs: float) -> list[float]:
    """Messages a second through one queue."""
    line = DflowLine(shape)
    return measure.chain(line, [(sink, (library,)), (source, (library, shape.size, warm, secs))])
