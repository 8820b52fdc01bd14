"""Faults of names: double, too long, unprintable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from dflow_core.errors import Fault
from dflow_core.graph.check_invoked import inner_graphs
from dflow_core.graph.node import GraphView

MAX_NAME = 127


def name_faults(graph: GraphView) -> Iterator[Fault]:
    """Names of one graph that cannot be, or that two things have."""
    yield from _unfit("graph", [graph.name])
    yield from _unfit("node", [node.name for node in graph.nodes])
    yield from _unfit("alias", [node.alias for node in graph.nodes if node.alias is not None])
    yield from _unfit("input", [data.name for data in graph.inputs])
    yield from _double("nodes", [node.name for node in graph.nodes])
    yield from _double("inputs", [data.name for data in graph.inputs])
    yield from _double("aliases", [node.alias for node in graph.nodes if node.alias is not None])
    yield from _alias_is_name(graph)
    yield from _double_endpoints(graph)


def flattened_name_faults(graph: GraphView, max_depth: int) -> list[Fault]:
    """Nodes of nested graphs that get one name, or too long a name, when the graph is made flat."""
    owners: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for path in _paths(graph, max_depth):
        owners["/".join(path)].append(path)
    faults = []
    for name, paths in owners.items():
        if len(set(paths)) > 1:
            places = " and ".join(" in ".join(repr(part) for part in reversed(path)) for path in dict.fromkeys(paths))
            message = f"{places} have one name when nested graphs are made flat"
            faults.append(Fault("duplicate-name", name, "", message, "rename one of them"))
        if len(paths[0]) > 1 and len(name) > MAX_NAME and all(len(part) <= MAX_NAME for part in paths[0]):
            message = f"expected a full name of at most {MAX_NAME} characters, got {len(name)}"
            faults.append(Fault("name", name[:40] + "...", "", message, "give the nodes around it shorter names"))
    return faults


def _paths(graph: GraphView, depth: int) -> Iterator[tuple[str, ...]]:
    for node in graph.nodes:
        yield (node.name,)
    for place, inner in inner_graphs(graph):
        if depth > 1:
            for path in _paths(inner, depth - 1):
                yield (*place, *path)
    for node in graph.nodes:
        for name, point in (node.point.invoked if node.point else {}).items():
            if point.nested is None:
                yield (node.name, name)


def _unfit(what: str, names: Iterable[str]) -> Iterator[Fault]:
    for name in dict.fromkeys(names):
        if not name or name.endswith("/"):
            yield Fault("name", name, "", f"expected a {what} name that is not empty, got {name!r}", "give it a name")
        elif len(name) > MAX_NAME:
            message = f"expected a {what} name of at most {MAX_NAME} characters, got {len(name)}"
            yield Fault("name", name[:40] + "...", "", message, "shorten it")
        elif not name.isprintable():
            message = f"expected a {what} name of printable characters, got {name!r}"
            yield Fault("name", repr(name), "", message, "leave out line ends, tabs and control characters")


def _double(what: str, names: Iterable[str]) -> Iterator[Fault]:
    counts: dict[str, int] = defaultdict(int)
    for name in names:
        counts[name] += 1
    for name, count in counts.items():
        if count > 1:
            message = f"expected different names, got {count} {what} called {name!r}"
            yield Fault("duplicate-name", name, "", message, "rename all but one, or leave the name out")


def _alias_is_name(graph: GraphView) -> Iterator[Fault]:
    names = {node.name for node in graph.nodes}
    for node in graph.nodes:
        if node.alias is not None and node.alias != node.name and node.alias in names:
            message = f"its alias {node.alias!r} is the name of another node"
            yield Fault("duplicate-name", node.name, "", message, "choose another alias")


def _double_endpoints(graph: GraphView) -> Iterator[Fault]:
    """Streams are named `<graph>:<input>` and `<node>:<output>`; no two may be equal, nor two names of results."""
    inputs = {f"{graph.name}:{data.name}": data.name for data in graph.inputs}
    for node in graph.nodes:
        for i in range(node.output_num):
            other = inputs.get(f"{node.name}:{i}")
            if other is not None:
                message = f"it is called like the graph, and so its stream like the one of input {other!r}"
                yield Fault("duplicate-name", node.name, f"output {i}", message, "rename the node or the graph")
    seen = {output.name: output for output in graph.outputs}
    for output in dict.fromkeys(graph.outputs):
        if seen[output.name] != output and seen[output.name].node.name != output.node.name:
            message = f"two results of the graph are called {output.name!r}"
            yield Fault("duplicate-name", output.node.name, f"output {output.index}", message, "rename the node")
