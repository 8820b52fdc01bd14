"""The handle of a transaction that was fed: its id, which can also cancel it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflow_core.executor import GraphClient


class Transaction(int):
    """A transaction, as `FlowGraph.feed` gives it: a whole number, and what can be done with it."""

    _client: weakref.ref[GraphClient]

    @classmethod
    def of(cls, trans_id: int, client: GraphClient) -> Transaction:
        """The handle of a transaction of a running graph."""
        made = cls(trans_id)
        made._client = weakref.ref(client)
        return made

    @property
    def in_flight(self) -> bool:
        """Whether it has not ended yet."""
        client = self._client()
        return client is not None and client.is_open(self)

    def cancel(self) -> bool:
        """End it now with CancelledError; what is under way of it is let go, and a function that works on it is told.

        Returns:
            Whether it was in flight; False if it has ended already.
        """
        client = self._client()
        return client is not None and client.cancel(self)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)
