"""The edges of a graph that runs in the caller's thread: queues that never wait, with the same policies and counters.

Nothing can wait for room in one thread, so a queue that blocks holds whatever comes. One that drops does so at the same
depth or age as between processes, with the same notices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from dflow_core.executor.lossy import has_no_data, notice_of
from dflow_core.message import FlowMsg
from dflow_core.model import Endpoint, FlowModel
from dflow_core.spi import QueueStats


class InlineEdge:
    """One queue.

    Args:
        name: Its name, as the deploy plan would have it.
        end: Its depth and what happens when it is full.
        depth: Its depth where `end` does not say.
        target: Node and port that read it, or "" and the output of the graph.
        clock: Monotonic seconds.
    """

    def __init__(
        self, name: str, end: Endpoint, depth: int, target: tuple[str, int], clock: Callable[[], float]
    ) -> None:
        self.name, self.target = name, target
        self._policy, self._max_age, self._clock = end.overflow, end.max_age, clock
        self._depth = 1 if end.overflow == "keep_latest" else end.depth or depth
        self._waiting: deque[tuple[FlowMsg, float]] = deque()
        self._sent = self._delivered = self._dropped = 0

    def put(self, msg: FlowMsg) -> list[FlowMsg]:
        """Take a message; gives notices of those that gave way to it, or of itself."""
        if self._policy != "block" and has_no_data(msg):
            return [msg]
        self._sent += 1
        notices = self._aged()
        full = len(self._waiting) >= self._depth
        if full and self._policy == "drop_newest":
            return [*notices, self._drop(msg)]
        if full and self._policy in ("drop_oldest", "keep_latest"):
            notices.append(self._drop(self._waiting.popleft()[0]))
        self._waiting.append((msg, self._clock()))
        return notices

    def take(self) -> list[FlowMsg]:
        """The next message if there is one, and before it notices of those that grew too old."""
        notices = self._aged()
        if not self._waiting:
            return notices
        self._delivered += 1
        return [*notices, self._waiting.popleft()[0]]

    def clear(self) -> bool:
        """Throw away what waits; whether anything did."""
        found = bool(self._waiting)
        self._waiting.clear()
        return found

    def stats(self) -> QueueStats:
        """Its counters."""
        age = self._clock() - self._waiting[0][1] if self._waiting else 0.0
        level = len(self._waiting)
        return QueueStats(self.name, self._depth, level, self._sent, self._delivered, self._dropped, 0, age)

    def _aged(self) -> list[FlowMsg]:
        notices = []
        while self._max_age and self._waiting and self._clock() - self._waiting[0][1] > self._max_age:
            notices.append(self._drop(self._waiting.popleft()[0]))
        return notices

    def _drop(self, msg: FlowMsg) -> FlowMsg:
        self._dropped += 1
        return notice_of(msg, self.name)


def inline_edges(model: FlowModel, depth: int, clock: Callable[[], float]) -> Mapping[str, list[InlineEdge]]:
    """The queues behind each endpoint of a graph, one for each reader; the graph's own outputs come last.

    Args:
        model: The graph.
        depth: Messages a queue holds where its endpoint does not say.
        clock: Monotonic seconds.
    """
    relation = model.relation
    ends = {end.name: end for end in relation.endpoints}
    edges: dict[str, list[InlineEdge]] = {name: [] for name in ends}
    for node, sides in relation.submodels.items():
        for port, source in enumerate(sides.inputs):
            edges[source].append(InlineEdge(f"{source}->{node}:{port}", ends[source], depth, (node, port), clock))
    for output, source in enumerate(relation.root.outputs):
        edges[source].append(InlineEdge(f"{source}->fetch:{output}", ends[source], depth, ("", output), clock))
    return edges
