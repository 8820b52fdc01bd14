"""What runs a node whole: it takes messages from the node's queues and sends what it makes of them itself."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dflow_core.model import DeadPart, ExceptionNote, InstancePlan
from dflow_core.spi.flow_func import FuncParams
from dflow_core.spi.transport import MemoryGroup
from dflow_core.types import NO_LIMITS, AlignLimits

BoardWords = np.ndarray[tuple[int], np.dtype[np.uint64]]
"""The words of a board of a memory group."""


@dataclass(frozen=True, slots=True)
class NodeLinks:
    """What joins an instance to the rest of its graph.

    Args:
        group: The memory group its messages lie in.
        plan: Names of its queues, and the routes of its outputs.
        params: What its functions are told.
        dead_parts: Parts lost with the former process of this instance; what still comes of them is dropped.
        trace: File to which a line of JSON is to be appended for every call (`node`, `instance`, `pid`, `trans_id`, and
            `start` and `end` in monotonic seconds); "" for none.
        limits: When a set of inputs that stays incomplete is given up.
        catches: Whether functions may raise exceptions for all other functions.
        raised: Takes an exception that a function of the node raised; any thread.
        cancelled: The board of cancelled transactions, as long as the group lives: how many there are, a count of
            changes, how many slots to look at, five words for nothing, and slots that hold a transaction each, or 0. A
            message of theirs passes by the functions as a skip. None where nothing is ever cancelled.
        failed_calls: Queue that takes each call that failed, with the messages it had, before its error is sent; ""
            where nobody records. It lies in a message as `dflow_core/executor/failed_calls.py` says. Nothing waits for
            room there.
    """

    group: MemoryGroup
    plan: InstancePlan
    params: FuncParams
    dead_parts: Sequence[DeadPart] = ()
    trace: str = ""
    limits: AlignLimits = NO_LIMITS
    catches: bool = False
    raised: Callable[[ExceptionNote], None] = lambda _note: None
    cancelled: BoardWords | None = None
    failed_calls: str = ""


class NodeWorker(abc.ABC):
    """Runs one instance of a node on its own, for engines whose data never passes through Python.

    It has the duties of the executor's own loop: parts of a transaction are paired, every transaction ends once on
    every output, errors and skips that come in pass on, and no wait is without a limit.
    """

    @abc.abstractmethod
    def open(self, links: NodeLinks) -> None:
        """Load and initialise; takes no message yet.

        Raises:
            DflowError: it cannot; the deployment fails with this text.
        """

    @abc.abstractmethod
    def run(self) -> None:
        """Work until the input queues are closed and empty, or `stop`.

        Raises:
            NodeError: after a failing call, if the node's `on_error` is `stop`.
            DflowError: it cannot go on; the process is then ended and started again by policy.
        """

    @abc.abstractmethod
    def stop(self) -> None:
        """Make `run` return soon without draining; any thread may call."""

    def notify(self, note: ExceptionNote) -> None:
        """Tell the functions of an exception that a function of this or another node raised; any thread may call.

        What there is of its transaction is dropped, and what still comes, until the exception expires.
        """

    def hold(self, held: bool) -> None:
        """Let no further call begin, or let them again; what is queued stays. Any thread may call, also before `run`.

        Args:
            held: Whether none may begin.
        """

    @property
    def is_quiet(self) -> bool:
        """Whether no call is under way; while they are held, it stays so."""
        return True

    def reset(self) -> bool:
        """Throw away all input and all that is held, and reset the functions; any thread may call.

        Returns:
            Whether there was nothing to throw away, as far as it is known.
        """
        return True

    @abc.abstractmethod
    def close(self) -> None:
        """Free everything. Called once `run` has returned, or instead of it. Idempotent."""

    @property
    @abc.abstractmethod
    def calls(self) -> int:
        """Calls finished."""

    @property
    @abc.abstractmethod
    def busy(self) -> float:
        """Seconds spent in calls."""

    @property
    @abc.abstractmethod
    def current(self) -> tuple[int, float] | None:
        """Transaction in work and since when (monotonic seconds), or None."""
