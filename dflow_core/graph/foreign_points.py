"""Process points of kinds that plugins add: how they become bytes, and what stands for one whose plugin is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

from dflow_core.graph.node import ProcessPoint


class PointCodec(Protocol):
    """How points of a third-party kind become bytes; a plugin's PointEntry is one."""

    @property
    def to_bytes(self) -> Callable[[ProcessPoint], bytes]:
        """Serialises a point."""

    @property
    def from_bytes(self) -> Callable[[bytes], ProcessPoint]:
        """The inverse."""


class OpaqueProcessPoint(ProcessPoint):
    """A point of a kind that no plugin here knows: it can be looked at and saved again, not compiled.

    Args:
        point_kind: Its kind.
        data: The bytes its plugin made of it.
        name: Name of the point.
    """

    kind: ClassVar[str] = "opaque"

    def __init__(self, point_kind: str, data: bytes, name: str) -> None:
        super().__init__(name)
        self.point_kind = point_kind
        self.data = data

    def caption(self) -> str:
        """Its kind."""
        return self.point_kind
