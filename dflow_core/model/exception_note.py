"""What a function says about a transaction to all others: an exception (runtime-semantics.md section 14)."""

from __future__ import annotations

from dataclasses import dataclass

TABLE_LIMIT = 1024
"""Exceptions remembered at once; a further one has the lowest transaction forgotten (section 14)."""


@dataclass(frozen=True, slots=True)
class ExceptionNote:
    """An exception that a function raised for one transaction, or that the exception is to be forgotten.

    Args:
        trans_id: Transaction.
        code: Code the function gave.
        user_context_id: Number the function gave along.
        head: Head of the message it was working on, as it travels.
        node, instance, function: Who raised it.
        expired: Whether to forget it.
    """

    trans_id: int
    code: int = 0
    user_context_id: int = 0
    head: bytes = b""
    node: str = ""
    instance: int = 0
    function: int = 0
    expired: bool = False

    @property
    def scope(self) -> str:
        """Names of the nested graphs it was raised in, each with a slash; "" at the root."""
        return scope_of(self.node)


def scope_of(node: str) -> str:
    """Scope of a node: the names of the nested graphs around it, each with a slash."""
    return node[: node.rfind("/") + 1]


class ExceptionTable:
    """The exceptions of one graph, one for each transaction and scope.

    Args:
        limit: How many are remembered.
    """

    def __init__(self, limit: int = TABLE_LIMIT) -> None:
        self._limit = limit
        self._known: dict[tuple[int, str], ExceptionNote] = {}

    def add(self, note: ExceptionNote) -> list[ExceptionNote]:
        """Take an exception; gives what everybody is to be told, in this order: nothing if it is known."""
        key = note.trans_id, note.scope
        if key in self._known:
            return []
        told = []
        if len(self._known) >= self._limit:
            oldest = self._known.pop(min(self._known))
            told.append(
                ExceptionNote(oldest.trans_id, node=oldest.node, function=oldest.function, expired=True)
            )
        self._known[key] = note
        return [*told, note]

    def __len__(self) -> int:
        return len(self._known)
