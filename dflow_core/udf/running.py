"""Which instance this process is, for functions that ask while they run."""

from __future__ import annotations

from typing import ClassVar

from dflow_core.spi import FuncParams


class _Running:
    """Set once, when the executor makes the function's object."""

    params: ClassVar[FuncParams | None] = None


def running() -> FuncParams | None:
    """Node, instance and device of the function that runs in this process; None where none does."""
    return _Running.params


def announce(params: FuncParams | None) -> None:
    """Say which instance this process is, or that it is none any more."""
    _Running.params = params
