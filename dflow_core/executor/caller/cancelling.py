"""What is left of transactions that ended before their time, without I/O: their traces, and whose deadline is next.

A transaction that is cancelled ends for its caller at once. In the graph, its messages turn into skips where they are
taken next, and those arrive at the outputs like everything else. When the tokens of all that arrived add up, nothing of
it is under way any more, and it is taken off the board (`cancel_board.py`).
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Sequence

from dflow_core.executor.cancel_board import CancelBoard


class Traces:
    """Transactions that were cancelled and of which something may be under way.

    Args:
        board: Where nodes read of them.
    """

    def __init__(self, board: CancelBoard) -> None:
        self._board = board
        self._tokens: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, trans_id: int) -> bool:
        return trans_id in self._tokens

    def add(self, trans_id: int, tokens: Sequence[int]) -> None:
        """Note a transaction.

        Args:
            trans_id: Which.
            tokens: For each output, the xor of its root token and of what has arrived.
        """
        self._tokens[trans_id] = list(tokens)
        self._tokens.pop(self._board.add(trans_id), None)

    def arrive(self, trans_id: int, output: int, token: int) -> bool:
        """Take the token of what arrived of it; whether it is one of these."""
        tokens = self._tokens.get(trans_id)
        if tokens is None:
            return False
        tokens[output] ^= token
        if not any(tokens):
            self.forget(trans_id)
        return True

    def forget(self, trans_id: int) -> None:
        """Nothing of it is under way."""
        self._tokens.pop(trans_id, None)
        self._board.remove(trans_id)

    def clear(self) -> None:
        """Nothing of any is under way."""
        for trans_id in list(self._tokens):
            self.forget(trans_id)


class Deadlines:
    """When transactions have to end, the next one first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []

    def add(self, trans_id: int, deadline: float, open_ids: Container[int], in_flight: int) -> None:
        """Note a deadline (monotonic seconds).

        Args:
            trans_id, deadline: Whose, and when.
            open_ids, in_flight: Transactions that have not ended, and how many; others are forgotten now and then.
        """
        if len(self._heap) > 2 * in_flight + 64:
            self._heap = [entry for entry in self._heap if entry[1] in open_ids]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (deadline, trans_id))

    def next(self, open_ids: Container[int]) -> float | None:
        """The next deadline of a transaction that has not ended, or None."""
        while self._heap and self._heap[0][1] not in open_ids:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: float, open_ids: Container[int]) -> list[int]:
        """Those whose deadline has passed, each given once."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            _, trans_id = heapq.heappop(self._heap)
            if trans_id in open_ids and trans_id not in found:
                found.append(trans_id)
        return found
