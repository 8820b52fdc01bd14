"""What stands between the caller and a running graph: queues and processes, or the caller's own thread."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

from dflow_core.errors import DflowError, UsageError
from dflow_core.executor.cancel_board import Words, no_words
from dflow_core.executor.meter import NodeStats
from dflow_core.message import Block, FlowMsg
from dflow_core.model import ExceptionNote, PneModel
from dflow_core.spi import Exchange, QueueStats

ALLOC_LIMIT = 30.0


class Backend(abc.ABC):
    """Moves messages in and out of a graph. One thread at a time calls `pump`; `feed` may run beside it."""

    @property
    def is_foreign(self) -> bool:
        """Whether this is a fork of the process that runs the graph: nothing may be used, not even a lock."""
        return False

    @abc.abstractmethod
    def alloc(self, size: int, timeout: float = ALLOC_LIMIT) -> Block:
        """A block to write a message into.

        Raises:
            PoolExhaustedError: no memory within the limit (seconds).
        """

    @abc.abstractmethod
    def owns(self, block: Block) -> bool:
        """Whether a block is of this graph, so that it can be fed as it is."""

    @abc.abstractmethod
    def has_room(self, inputs: Sequence[int]) -> bool:
        """Whether a message can be fed to each of these inputs at once."""

    @abc.abstractmethod
    def feed(self, trans_id: int, blocks: Mapping[int, Block]) -> None:
        """Feed one message to each of some inputs; `has_room` was true just before, from the same thread.

        Args:
            trans_id: Their transaction.
            blocks: A message for each of the inputs; they are handed over.
        """

    @abc.abstractmethod
    def pump(self, timeout: float, room_for: Sequence[int] = ()) -> list[tuple[int, FlowMsg]]:
        """Wait up to `timeout` seconds for messages at the outputs, or for room at some inputs.

        Returns:
            What arrived, as (output, message); may be empty.
        """

    def failed_calls(self) -> list[bytes]:
        """Calls of nodes that failed since this was asked last, packed; only where a recording is made."""
        return []

    def take_exceptions(self) -> list[ExceptionNote]:
        """Exceptions that functions have raised since the last call; whoever pumps asks."""
        return []

    @abc.abstractmethod
    def failure(self) -> DflowError | None:
        """Why the graph cannot go on, or None."""

    @abc.abstractmethod
    def report(self, stacks: bool = True) -> str:
        """Where everything stands, a few lines for an error about a wait that took too long.

        Args:
            stacks: Whether to show where each process is; that takes some milliseconds.
        """

    def stats(self) -> tuple[tuple[NodeStats, ...], tuple[QueueStats, ...], int]:
        """Counters of nodes and queues, and the bytes that messages take; any thread."""
        return (), (), 0

    def cancel_words(self) -> Words:
        """The board where nodes read what was cancelled."""
        return no_words()

    def whereabouts(self, trans_id: int) -> tuple[str, int] | None:
        """The node and instance that work on a transaction now, or None."""
        return None

    def tell_cancelled(self) -> None:
        """Have nodes that wait look at the board; any thread may call."""

    def prepare(self, models: Mapping[str, PneModel]) -> Exchange:
        """Load other models in the place of some: see `Deployment.prepare`."""
        raise UsageError("this graph cannot exchange its models")

    def suspend(self, timeout: float) -> bool:
        """Let nodes finish the calls at hand and begin no more; whether they have, within the limit (seconds)."""
        return True

    def resume(self) -> None:
        """Let nodes go on."""

    def discard(self, timeout: float) -> bool | None:
        """While suspended, throw away what nodes have and reset their functions.

        Returns:
            Whether there was nothing left; None if that took longer than the limit (seconds).
        """
        return True

    def is_empty(self) -> bool:
        """Whether no queue holds anything."""
        return not any(edge.level for edge in self.stats()[1])

    @abc.abstractmethod
    def wake(self) -> None:
        """Make a waiting `pump` return soon; any thread may call."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the graph. Idempotent."""
