"""What can be done to a graph as a whole while it runs."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, cast

from dflow_core import graph as data
from dflow_core.errors import UsageError
from dflow_core.options import seconds

if TYPE_CHECKING:
    from dflow_core.running_graph import RunningGraph
    from dflow_core.session import DFlowSession

Seconds: TypeAlias = float | timedelta


class Controls(abc.ABC):
    """The part of `FlowGraph` that holds it up, starts it over, and exchanges its nodes."""

    @property
    @abc.abstractmethod
    def running(self) -> RunningGraph:
        """The running graph."""

    @abc.abstractmethod
    def in_session(self) -> DFlowSession:
        """The session it runs in."""

    def update(self, node: data.FlowNode | str, new: object, timeout: Seconds = 60.0) -> int:
        """Let a node do something else from the next transaction on, while the graph runs.

        What is new is compiled and loaded beside the old, in processes of its own, while the graph goes on. Then
        feeding is held up until everything in flight has ended, and all instances of the node change at once: every
        transaction sees one version of the node, and none is lost. If anything fails before that, the old stays.

        Args:
            node: The node, or its path: `node`, `node/inner` for one in a graph that is a node, `node/key` for what a
                function calls, `node/key/inner` for one in there. A node of a graph that is used in several places
                changes in all of them.
            new: A decorated function or class, a process point, or a node made with `fnode()` for its point; with the
                same ports.
            timeout: Seconds or a timedelta for another update to end, and for everything in flight to end.

        Returns:
            The id of the first transaction that the new version works on, or a lower one.

        Raises:
            UsageError: there is no such node, or the ports differ.
            CompileError, StartupError: the new version cannot be built or loaded; the old stays.
            WaitTimeoutError: what is in flight did not end, or another update; the old stays.
            ClosedError: the graph was closed meanwhile.
        """
        running, point, limit = self.running, _point_of(new), seconds(timeout, "timeout")
        with running.control.updating(limit):
            place = data.find_place(cast("data.FlowGraph", self), node)
            versions, old = running.versions, place.exchange(point)
            try:
                return self.in_session().update(running, cast("data.FlowGraph", self), place, limit)
            except BaseException:
                if running.versions is versions:  # else the new one is in force already
                    place.exchange(old)
                raise

    @property
    def versions(self) -> Mapping[str, int]:
        """Versions of the nodes that were updated since the graph was started, by path; all others have their first.

        Raises:
            ClosedError: if the graph does not run.
        """
        return self.running.versions

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


def _point_of(new: object) -> data.ProcessPoint:
    if isinstance(new, data.ProcessPoint):
        return new
    if isinstance(new, data.FlowNode):
        if new.point is None:
            raise UsageError(f"node {new.name!r} does nothing: it has no process point")
        return new.point
    return data.FuncProcessPoint(py_func=new)
