"""Exceptions of users where the whole graph runs in the caller's thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from dflow_core.executor.exceptions import ExceptionDesk
from dflow_core.model import ExceptionNote, ExceptionTable


class Told(Protocol):
    """A node that can be told of exceptions."""

    def notify(self, note: ExceptionNote) -> None:
        """Take an exception."""

    def tick(self) -> None:
        """Deliver it."""


class InlineExceptions:
    """Takes what functions raise, tells the nodes, and keeps it for the caller.

    Args:
        catches: Whether functions may raise any.
    """

    def __init__(self, catches: bool) -> None:
        self._catches = catches
        self._raised: deque[ExceptionNote] = deque()
        self._reported: list[ExceptionNote] = []
        self._table = ExceptionTable()

    @property
    def has_news(self) -> bool:
        """Whether nodes are to be told of something."""
        return bool(self._raised)

    def desk(self, node: str) -> ExceptionDesk | None:
        """What a node knows of exceptions; None where there are none."""
        return ExceptionDesk(node, 0, self._raised.append) if self._catches else None

    def spread(self, nodes: Sequence[Told]) -> None:
        """Tell every node of what was raised, before any of them works on."""
        while self._raised:
            for note in self._table.add(self._raised.popleft()):
                self._reported += [] if note.expired else [note]
                for node in nodes:
                    node.notify(note)
        for node in nodes:
            node.tick()

    def take(self) -> list[ExceptionNote]:
        """What was raised since the last call of this."""
        reported, self._reported = self._reported, []
        return reported
