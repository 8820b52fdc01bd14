"""Decides when a graph stalls, and says so in words; no I/O.

A graph stalls when transactions are in flight and no counter has changed for as long as the limit. It does not when all
that is left of them lies ready to be fetched: then it is the caller's turn. One report is made for each stall. A node
that stays in one call for so long while others work is reported too; a node whose long calls were reported once, alone
or as the cause of a stall, is again only when one takes twice as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dflow_core.executor.caller.stats import GraphStats
from dflow_core.executor.meter import NodeStats
from dflow_core.spi import QueueStats


@dataclass(frozen=True, slots=True)
class Stall:
    """What is to be reported.

    Args:
        seconds: How long nothing has moved; 0 where only some nodes are in long calls.
        busy: Nodes in calls that are longer than the limit.
    """

    seconds: float
    busy: tuple[NodeStats, ...]


class StallWatch:
    """Looks at counters from time to time.

    Args:
        limit: Seconds without any change that are a stall.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._seen: object = None
        self._since = 0.0
        self._reported = False
        self._patience: dict[tuple[str, int], float] = {}

    def look(self, now: float, stats: GraphStats) -> Stall | None:
        """Take the counters at a time (monotonic seconds); what is to be reported, or None."""
        seen = _moving(stats)
        if seen != self._seen or not stats.in_flight or _awaits_caller(stats):
            self._seen, self._since, self._reported = seen, now, False
        still = now - self._since
        working = [node for node in stats.nodes if node.current is not None and not _blocked_by(node, stats)]
        busy = tuple(node for node in working if self._is_long(node))
        known = any(not self._is_long(node) and (node.node, node.instance) in self._patience for node in working)
        stalled = still >= self._limit and not self._reported and (bool(busy) or not known)
        if not stalled and (not busy or still >= self._limit / 2):
            return None  # nothing, or a stall in the making
        self._reported = self._reported or stalled
        for node in busy:
            assert node.current is not None
            self._patience[node.node, node.instance] = 2 * node.current[1]
        return Stall(still if stalled else 0.0, busy)

    def _is_long(self, node: NodeStats) -> bool:
        limit = self._patience.get((node.node, node.instance), self._limit)
        return node.current is not None and node.current[1] >= limit


def concerned(stats: GraphStats, stall: Stall, readers: Mapping[str, str]) -> list[NodeStats]:
    """The instances that everybody waits for: in a long call, behind a full queue, not running; else all."""
    slow = {readers.get(edge.name, "") for edge in stats.edges if _is_full(edge)}
    found = [
        node for node in stats.nodes
        if node in stall.busy or node.state != "running" or (node.node in slow and not _blocked_by(node, stats))
    ]
    return found or list(stats.nodes)


def report(stats: GraphStats, stall: Stall, readers: Mapping[str, str], stacks: Mapping[str, str]) -> str:
    """A report for people: what does not move, where, since when, and what everybody concerned is doing.

    Args:
        stats: The counters.
        stall: What is to be reported.
        readers: For each edge, the node that reads it; "" for the caller.
        stacks: What processes are doing, by name.
    """
    flight = f"{stats.in_flight} transaction{'s' * (stats.in_flight != 1)} in flight"
    flight += f", the oldest is {stats.oldest}" if stats.in_flight else ""
    if stall.seconds:
        lines = [f"graph {stats.graph!r} has not moved for {stall.seconds:.0f} s: {flight}"]
        lines.append(f"  cause: {_cause(stats, stall, readers)}")
    else:
        calls = ", ".join(f"{_named(node)}, {_trans(node)}" for node in stall.busy)
        lines = [f"graph {stats.graph!r}: a long call of {calls}; {flight}"]
    lines += [f"  full queue {_level(edge)}, {_age(edge)}" for edge in stats.edges if _is_full(edge)]
    lines += [f"  queue {_level(edge)}, {_age(edge)}" for edge in stats.edges if edge.level and not _is_full(edge)]
    empty = [edge.name for edge in stats.edges if not edge.level]
    lines += [f"  empty: {', '.join(empty)}"] if empty else []
    lines += [f"  {_doing(node, stats, readers)}" for node in stats.nodes]
    lines += [f"--- {name} ---\n{text.rstrip()}" for name, text in stacks.items() if text.strip()]
    return "\n".join(lines)


def _moving(stats: GraphStats) -> object:
    total = stats.transactions
    return (
        (total.fed, total.delivered, total.failed, total.dropped),
        tuple((edge.sent, edge.delivered, edge.dropped, edge.failed) for edge in stats.edges),
        tuple((node.pid, node.calls) for node in stats.nodes),
    )


def _awaits_caller(stats: GraphStats) -> bool:
    """Whether all that is in flight lies in the queues the caller fetches from, none of them full."""
    ready = [edge for edge in stats.edges if "->fetch:" in edge.name]
    others = sum(edge.level for edge in stats.edges) - sum(edge.level for edge in ready)
    idle = not others and all(node.current is None for node in stats.nodes)
    return idle and not any(map(_is_full, ready)) and stats.in_flight <= max((e.level for e in ready), default=0)


def _cause(stats: GraphStats, stall: Stall, readers: Mapping[str, str]) -> str:
    """The first thing to look at: the end of the row of full queues, or the node that works for so long."""
    full = [edge for edge in stats.edges if _is_full(edge)]
    before = set(map(_producer, full))
    last = next((edge for edge in full if readers.get(edge.name, "") not in before), None)
    down = [node for node in stats.nodes if node.state != "running"]
    if last is not None:
        node = readers.get(last.name, "")
        if not node:
            return f"the caller does not fetch: queue {_level(last)} is full"
        what = next((f" ({_named(one)}: {_trans(one)})" for one in stall.busy if one.node == node), "")
        return f"edge {last.name} is blocked: node {node!r} takes nothing from it{what}"
    if down:
        return f"{_named(down[0])} is {down[0].state}"
    if stall.busy:
        return f"{_named(stall.busy[0])} has not come back from its call, {_trans(stall.busy[0])}"
    waiting = next((edge for edge in stats.edges if edge.level), None)
    if waiting is not None:
        node = readers.get(waiting.name, "")
        who = f"node {node!r} takes nothing from" if node else "the caller does not fetch"
        return f"{who} {waiting.name}"
    return "every queue is empty: a node that joins, gathers or batches holds the messages and waits for others"


def _doing(node: NodeStats, stats: GraphStats, readers: Mapping[str, str]) -> str:
    full = _blocked_by(node, stats)
    text = f"{_named(node)}: {node.state}, {node.calls} calls, {node.failed} failed"
    if node.current is not None:
        text += f", working on {_trans(node)}"
    if full:
        text += f", waits for room in {', '.join(full)}"
    elif node.current is None and node.state == "running":
        has_input = any(edge.level for edge in stats.edges if readers.get(edge.name) == node.node)
        text += ", has input and does not take it" if has_input else ", waits for input"
    return text


def _blocked_by(node: NodeStats, stats: GraphStats) -> list[str]:
    """Full queues behind a node."""
    return [edge.name for edge in stats.edges if _is_full(edge) and _producer(edge) == node.node]


def _producer(edge: QueueStats) -> str:
    return edge.name.partition("->")[0].rpartition(":")[0]


def _is_full(edge: QueueStats) -> bool:
    return edge.level >= edge.depth


def _level(edge: QueueStats) -> str:
    return f"{edge.name}: {edge.level} of {edge.depth}"


def _age(edge: QueueStats) -> str:
    return f"the oldest for {edge.oldest_age:.1f} s"


def _named(node: NodeStats) -> str:
    return f"node {node.node}#{node.instance} (pid {node.pid})"


def _trans(node: NodeStats) -> str:
    assert node.current is not None
    return f"transaction {node.current[0]} for {node.current[1]:.1f} s"
