"""Where a running graph stands: transactions, nodes and edges, with their counters."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dflow_core.executor.meter import MeterReader, NodeStats
from dflow_core.executor.outcomes import Counters
from dflow_core.spi import Deployment, InstanceStatus, QueueStats


@dataclass(frozen=True, slots=True)
class GraphStats:
    """Counters of a running graph.

    Args:
        graph: Its name.
        pid: The process that feeds and fetches.
        transactions: Totals of transactions: fed = delivered + failed + dropped + in flight.
        in_flight: Transactions that have not ended.
        oldest: The oldest of them; 0 if there is none.
        nodes: One entry for each instance of a node.
        edges: One entry for each queue: sent = delivered + dropped + failed + level.
        bytes_in_use: Memory that messages take.
    """

    graph: str
    pid: int
    transactions: Counters
    in_flight: int
    oldest: int
    nodes: tuple[NodeStats, ...] = ()
    edges: tuple[QueueStats, ...] = ()
    bytes_in_use: int = 0

    @property
    def losses(self) -> tuple[str, ...]:
        """What was lost on the way, one sentence for each edge."""
        return tuple(
            f"{edge.name}: {_counted(edge)} of {edge.sent} messages"
            for edge in self.edges
            if edge.dropped or edge.failed
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Which instances were started again, and which were given up and why, a sentence each."""
        return tuple(_told(node) for node in self.nodes if node.restarts or node.given_up is not None)

    @property
    def status(self) -> str:
        """`complete`, or `incomplete` and what was lost; before that `degraded` and which instances are missing."""
        missing = [f"{node.node}#{node.instance}" for node in self.nodes if node.state == "failed"]
        text = f"incomplete: lost {'; '.join(self.losses)}" if self.losses else "complete"
        return f"degraded: without {', '.join(missing)}; {text}" if missing else text


def _told(node: NodeStats) -> str:
    count = node.restarts
    again = f"started again {count} time{'s' * (count != 1)}" if count else "never started again"
    if node.given_up is None:
        return f"{node.node}#{node.instance}: {again}"
    ago, why = node.given_up
    return f"{node.node}#{node.instance}: {again}, given up {ago:.0f} s ago: {why}"


def _counted(edge: QueueStats) -> str:
    words = [f"{count} {what}" for count, what in ((edge.dropped, "dropped"), (edge.failed, "failed")) if count]
    return " and ".join(words)


class StatsReader:
    """Reads what a deployment's nodes and queues count; any thread.

    Args:
        deployment: The running processes.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._meters = {
            (i.model, i.index): MeterReader(deployment.group, i.model, i.index) for i in deployment.plan.instances
        }
        self._notices = frozenset(deployment.plan.notices.values())

    def edges(self) -> tuple[tuple[QueueStats, ...], int]:
        """Counters of every queue that carries messages, and the bytes in use."""
        stats = self._deployment.group.stats()
        here = tuple(queue for queue in stats.queues if queue.name not in self._notices)
        return (*here, *self._deployment.queues_elsewhere()), stats.bytes_in_use

    def nodes(self) -> tuple[NodeStats, ...]:
        """Counters of every instance; of those that count for themselves, what they say when asked."""
        return tuple(map(self.counted, self._deployment.status()))

    def working_on(self, trans_id: int) -> tuple[str, int] | None:
        """The node and instance that say they work on a transaction now, or None."""
        return next((key for key, meter in self._meters.items() if meter.works_on(trans_id)), None)

    def counted(self, status: InstanceStatus) -> NodeStats:
        """Counters of an instance in a state."""
        counted = self._meters[status.node, status.instance].read(status.pid, status.state, status.restarts)
        if counted is not None:
            return replace(counted, given_up=status.given_up) if status.given_up is not None else counted
        return NodeStats(
            status.node, status.instance, status.pid, status.state, status.restarts, status.calls, status.failed,
            status.busy, status.blocked, status.waiting, status.current, status.given_up, machine=status.machine,
        )


def counted_status(deployment: Deployment) -> list[InstanceStatus]:
    """State of every instance, with what the instances themselves count where they do."""
    reader = StatsReader(deployment)
    return [
        replace(
            status, calls=node.calls, busy=node.busy, current=node.current, failed=node.failed, blocked=node.blocked,
            waiting=node.waiting,
        )
        for status in deployment.status()
        for node in [reader.counted(status)]
    ]


def graph_stats(
    graph: str, counters: Counters, open_ids: Sequence[int], nodes: tuple[NodeStats, ...],
    edges: tuple[QueueStats, ...], bytes_in_use: int = 0,
) -> GraphStats:
    """Put together what caller, nodes and queues say."""
    oldest = open_ids[0] if open_ids else 0
    return GraphStats(graph, os.getpid(), replace(counters), len(open_ids), oldest, nodes, edges, bytes_in_use)


def own_stacks() -> str:
    """Python stacks of the threads of this process."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames().items()
    return "\n".join(
        f"Thread {names.get(number, number)}:\n{''.join(traceback.format_stack(frame)).rstrip()}"
        for number, frame in frames
    )
