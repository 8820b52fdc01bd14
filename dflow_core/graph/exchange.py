"""Where process points stand in a graph and in the graphs inside it, and another one put in the place of one.

A place is called by a path: the name of a node; `<node>/<inner node>` for one in a graph that is a node;
`<node>/<key>` for what a function calls by that key, and `<node>/<key>/<inner node>` for a node in there. Compiled
nodes have the same names. A graph that is used several times is one graph: a node in it stands at several paths.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from dflow_core.errors import UsageError
from dflow_core.graph.node import FlowNode, GraphView, PortMap, ProcessPoint
from dflow_core.graph.points import FuncProcessPoint
from dflow_core.options import nearest

_NEAR = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process point stands that may be exchanged.

    Args:
        holder: The node that does it, or the point whose functions call it.
        key: What they call it by; "" for a node.
        paths: Everywhere it stands.
        inside: Paths of it and of everything in it.
        others: All other paths of the graph.
    """

    holder: FlowNode | ProcessPoint
    key: str
    paths: tuple[str, ...]
    inside: frozenset[str]
    others: frozenset[str]

    def names_in(self, compiled: Iterable[str]) -> list[str]:
        """Those of the compiled nodes that were made of what stands here."""
        return [name for name in compiled if self._owner(name) in self.inside]

    def exchange(self, new: ProcessPoint) -> ProcessPoint:
        """Let something else stand here, with the same ports and batching; gives what stood here before.

        Raises:
            UsageError: it cannot stand here.
        """
        if isinstance(self.holder, FuncProcessPoint):
            return self.holder.exchange_invoked(self.key, new)
        if not isinstance(self.holder, FlowNode) or len(self.holder.points) != 1:
            text = f"what stands at {self.paths[0]!r} cannot be exchanged: only nodes with one process point can"
            raise UsageError(text)
        return exchange_point(self.holder, new)

    def _owner(self, name: str) -> str:
        """The longest path that a compiled node lies under."""
        while name and name not in self.inside and name not in self.others:
            name = name.rpartition("/")[0]
        return name


def find_place(graph: GraphView, wanted: FlowNode | str) -> Place:
    """The place of a node, given itself or by a path.

    Raises:
        UsageError: there is none; names those that are nearest.
    """
    steps = list(_walk(graph, "", ()))
    found = next((chain[-1] for path, chain in steps if path == wanted or chain[-1] == (wanted, "")), None)
    if found is None:
        name = wanted.name if isinstance(wanted, FlowNode) else str(wanted)
        raise UsageError(f"there is no node {name!r} in graph {graph.name!r}", hint=_hint(name, [p for p, _ in steps]))
    inside = frozenset(path for path, chain in steps if found in chain)
    paths = tuple(path for path, chain in steps if chain[-1] == found)
    return Place(*found, paths, inside, frozenset(path for path, _ in steps) - inside)


def exchange_point(node: FlowNode, new: ProcessPoint) -> ProcessPoint:
    """Let a node with one process point do something else; gives what it did before."""
    (old,) = node.points
    node._points[:] = [new]
    for maps in (node._input_maps, node._output_maps):
        maps[:] = [_with_point(entry, new) for entry in maps]
    return old


_Holder = tuple[FlowNode | ProcessPoint, str]


def _walk(graph: GraphView, scope: str, chain: tuple[_Holder, ...]) -> Iterator[tuple[str, tuple[_Holder, ...]]]:
    """Every path, with what holds it and everything around it, outermost first."""
    for node in graph.nodes:
        path, here = scope + node.name, (*chain, (node, ""))
        yield path, here
        if node.point is None:
            continue
        if node.point.nested is not None:
            yield from _walk(node.point.nested, f"{path}/", here)
        for key, called in node.point.invoked.items():
            at = (*here, (node.point, key))
            yield f"{path}/{key}", at
            if called.nested is not None:
                yield from _walk(called.nested, f"{path}/{key}/", at)


def _hint(name: str, known: list[str]) -> str:
    """Nodes of that name, or of nearly that name, in graphs inside come first; else what is near as a whole."""
    last = name.rpartition("/")[2].lower()
    ends = {path.rpartition("/")[2].lower() for path in known}
    near = difflib.get_close_matches(last, ends, n=_NEAR, cutoff=0.75)
    inner = [path for end in near for path in known if path.rpartition("/")[2].lower() == end]
    if not inner:
        return nearest(name, known)
    inner.sort(key=lambda path: -difflib.SequenceMatcher(None, name, path).ratio())
    return "did you mean " + " or ".join(map(repr, inner[:_NEAR])) + "?"


def _with_point(entry: PortMap, point: ProcessPoint) -> PortMap:
    return replace(entry, point=point)
