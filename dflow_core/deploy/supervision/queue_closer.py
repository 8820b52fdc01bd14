"""Closes each queue when nobody is left who would put something into it, so that a graph runs dry front to back."""

from __future__ import annotations

import contextlib

from dflow_core.errors import DflowError
from dflow_core.model import DeployPlan
from dflow_core.spi import MemoryGroup

_FEEDER = ("", -1)
_ELSEWHERE = "machine "


class QueueCloser:
    """Knows who still puts into which queue.

    Args:
        plan: What runs where.
        group: Memory group of the queues.
    """

    def __init__(self, plan: DeployPlan, group: MemoryGroup) -> None:
        self._group = group
        self._fetches = plan.fetches
        self._notices = plan.notices
        self._producers: dict[str, set[tuple[str, int]]] = {queue.name: set() for queue in plan.queues}
        for instance in plan.instances:
            for routes in instance.outputs:
                for queue in (name for route in routes for name in route.queues):
                    self._producers[queue].add((instance.model, instance.index))
            for queue in (name for one in instance.invoked for name in one.feeds):
                self._producers[queue].add((instance.model, instance.index))
        for queue in (name for routes in plan.feeds for route in routes for name in route.queues):
            self._producers[queue].add(_FEEDER)
        for one in plan.crossings:
            if one.target == plan.machine:
                self._producers[one.queue].add((_ELSEWHERE + one.source, -1))

    def end_feeding(self) -> None:
        """The application feeds no more."""
        self.done(*_FEEDER)

    def done(self, model: str, index: int) -> None:
        """An instance puts nothing into its queues any more."""
        for queue, producers in list(self._producers.items()):
            if (model, index) in producers:
                producers.discard((model, index))
                if not producers:
                    self._close(queue)

    def done_elsewhere(self, queue: str, machine: str) -> None:
        """Nothing comes any more for a queue from another machine."""
        producers = self._producers.get(queue, set())
        producers.discard((_ELSEWHERE + machine, -1))
        if not producers and queue in self._producers:
            self._close(queue)

    def close_all(self) -> None:
        """Close every queue now; whoever waits at one wakes."""
        for queue in list(self._producers):
            self._close(queue)

    def discard_results(self) -> None:
        """Take what lies in the result queues, so that producers who wait for room there can end."""
        notices = [self._notices[name] for name in self._fetches if name in self._notices]
        for name in (*self._fetches, *notices):
            with contextlib.suppress(DflowError):
                queue = self._group.queue(name)
                while (block := queue.get(0.0)) is not None:
                    block.release()
                queue.take_dropped()

    def _close(self, queue: str) -> None:
        self._producers.pop(queue, None)
        with contextlib.suppress(DflowError):
            self._group.queue(queue).close()
            if queue in self._notices:
                self._group.queue(self._notices[queue]).close()
