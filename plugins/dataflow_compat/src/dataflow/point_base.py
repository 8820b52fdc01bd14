"""What all kinds of process points have in common."""

from __future__ import annotations

from dflow_core import graph as core

__all__ = ["Point"]


class Point:
    """What a node does.

    Args:
        impl: The same for the core.
        name: Its name.
    """

    def __init__(self, impl: core.ProcessPoint, name: str) -> None:
        self._impl = impl
        self.name = name
