"""The transaction that a function works on, as the function sees it: which one, and whether anybody still wants it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import TypeAlias

from dflow_core.errors import CancelledError, UsageError


@dataclass(frozen=True, slots=True)
class CurrentTransaction:
    """A transaction that a function works on; any thread may ask it, also after the call.

    Args:
        id: Its id, as `feed` gave it; of a batch, that of its newest member.
        is_cancelled: Looks whether it was cancelled or is over its deadline.
    """

    id: int
    is_cancelled: Callable[[int], bool]

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for its result any more; costs well below a microsecond."""
        return self.is_cancelled(self.id)

    def raise_if_cancelled(self) -> None:
        """Leave the function if nobody waits for its result any more.

        Raises:
            CancelledError: it was cancelled, or is over its deadline.
        """
        if self.cancelled:
            raise CancelledError("it was cancelled, or its deadline has passed", trans_id=self.id)


Finder: TypeAlias = Callable[[], CurrentTransaction | None]
_finder: ContextVar[Finder | None] = ContextVar("dflow_current_transaction", default=None)


def current_transaction() -> CurrentTransaction:
    """The transaction of the call that this thread is in.

    A function that takes long asks `df.current_transaction().cancelled` from time to time, and returns early if so.
    A thread that the function starts is told by handing the object over.

    Raises:
        UsageError: this thread is in no call of a node.
    """
    finder = _finder.get()
    found = finder() if finder is not None else None
    if found is None:
        raise UsageError(
            "this thread works on no transaction",
            hint="ask in the function of a node, and hand what you get to threads it starts",
        )
    return found


def set_current_transaction(finder: Finder) -> Token[Finder | None]:
    """Have `current_transaction` ask this in the calling thread; for executors."""
    return _finder.set(finder)


def reset_current_transaction(token: Token[Finder | None]) -> None:
    """Undo `set_current_transaction`."""
    _finder.reset(token)
