"""What can be done to a graph as a whole while it runs."""

from __future__ import annotations

import abc
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from dflow_core.options import seconds

if TYPE_CHECKING:
    from dflow_core.session import RunningGraph

Seconds: TypeAlias = float | timedelta


class Controls(abc.ABC):
    """The part of `FlowGraph` that holds it up, starts it over, and exchanges its nodes."""

    @property
    @abc.abstractmethod
    def running(self) -> RunningGraph:
        """The running graph."""

    def suspend(self, timeout: Seconds = 60.0) -> None:
        """Hold the graph up: every node finishes the call at hand and begins no other; what is queued is kept.

        Feeding goes on until the queues are full. A process that is started again meanwhile waits too.

        Args:
            timeout: Seconds or a timedelta that calls may take to finish.

        Raises:
            WaitTimeoutError: one took longer; the graph then runs on.
        """
        self.running.control.suspend(seconds(timeout, "timeout"))

    def resume(self) -> None:
        """Go on after `suspend`."""
        self.running.control.resume()

    def recover(self, timeout: Seconds = 60.0) -> int:
        """Throw away everything in flight and start over: each transaction ends, functions are reset.

        Objects whose class has a method `reset_func_state` have it called; C++ functions `ResetFlowFuncState`.

        Args:
            timeout: Seconds or a timedelta that calls at hand may take to finish.

        Returns:
            How many transactions were thrown away.

        Raises:
            WaitTimeoutError: a call took longer; nothing was thrown away.
        """
        return self.running.control.recover(seconds(timeout, "timeout"))
