"""Faults of wiring: open inputs, cycles, counts that differ, ports mapped wrongly, attributes nobody knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from dflow_core.errors import Fault, OptionError
from dflow_core.graph.attributes import NODE_ATTRIBUTES
from dflow_core.graph.flow_data import FlowData
from dflow_core.graph.node import FlowNode, FlowOutput, GraphView, PortMap, ProcessPoint
from dflow_core.options import nearest, normalize
from dflow_core.types import FuncSpec


def wiring_faults(graph: GraphView) -> Iterator[Fault]:
    """Faults of one graph's wiring."""
    if not graph.outputs:
        yield Fault("no-outputs", graph.name, "", "expected at least one output, got none", "give FlowGraph([output])")
    elif not graph.inputs:
        message = "expected at least one FlowData that feeds it, got none"
        yield Fault("no-inputs", graph.name, "", message, "feed a node with FlowData()")
    yield from _option_faults(graph)
    for position, output in enumerate(graph.outputs):
        yield from _output_index(output, graph.name, f"output {position}")
    known = set(graph.nodes)
    inputs = set(graph.inputs)
    for node in graph.nodes:
        yield from _input_faults(node, known, inputs)
        yield from _point_faults(node)
        yield from _attribute_faults(node)
    yield from _cycles(graph.nodes)


def _option_faults(graph: GraphView) -> Iterator[Fault]:
    for key, value in graph.options.items():
        try:
            normalize({key: value}, "graph")
        except OptionError as error:
            yield Fault("option", graph.name, "", error.message, error.hint or "")


def _output_index(output: FlowOutput, place: str, port: str) -> Iterator[Fault]:
    node = output.node
    if not isinstance(output.index, int) or not 0 <= output.index < node.output_num:
        message = f"expected an output of {node.name!r} from 0 to {node.output_num - 1}, got {output.index}"
        if not node.output_num:
            message = f"expected an output, but {node.name!r} has none"
        yield Fault("output-index", place, port, message, "use what calling the node returned")


def _input_faults(node: FlowNode, nodes: set[FlowNode], inputs: set[FlowData]) -> Iterator[Fault]:
    for i, source in enumerate(node.sources):
        port = f"input {i}"
        if source is None:
            hint = f"call the node with {node.input_num} inputs"
            yield Fault("unconnected", node.name, port, "expected FlowData or another node's output, got nothing", hint)
            continue
        if isinstance(source, FlowOutput):
            yield from _output_index(source, node.name, port)
        if source not in inputs if isinstance(source, FlowData) else source.node not in nodes:
            message = f"it was wired to {source!r} after the graph had been built"
            yield Fault("unconnected", node.name, port, message, "build the FlowGraph after all wiring")
        batches = node.batching(i)
        if len(batches) > 1:
            message = f"expected one TimeBatch or CountBatch, got {', '.join(map(str, batches))}"
            yield Fault("batch", node.name, port, message, "batch in a node of its own in front")


def _point_faults(node: FlowNode) -> Iterator[Fault]:
    if len(node.points) != 1:
        kind = "arity" if node.points else "no-point"
        message = f"expected one process point, got {len(node.points) or 'none'}"
        yield Fault(kind, node.name, "", message, "call add_process_point once, or make the node with fnode()")
        return
    point = node.points[0]
    sides = (
        ("input", node.input_num, [f.inputs for f in point.functions], node.input_maps),
        ("output", node.output_num, [f.outputs for f in point.functions], node.output_maps),
    )
    inner = point.nested
    if inner is not None:
        yield from _count(node, "input", len(inner.inputs), f"the graph {inner.name!r}")
        yield from _count(node, "output", len(inner.outputs), f"the graph {inner.name!r}")
    for side, count, owned, maps in sides:
        yield from _owned_faults(node, side, count, owned, point.functions)
        yield from _map_faults(node, side, count, point, maps)


def _count(node: FlowNode, side: str, wanted: int, whose: str) -> Iterator[Fault]:
    got = node.input_num if side == "input" else node.output_num
    if wanted != got:
        message = f"expected {wanted} {side}s, as {whose} has, got {got}"
        yield Fault("arity", node.name, "", message, f"make the node with {side}_num={wanted}")


def _owned_faults(
    node: FlowNode, side: str, count: int, owned: Sequence[tuple[int, ...]], functions: Sequence[FuncSpec]
) -> Iterator[Fault]:
    if not functions:
        return
    uses = Counter(port for ports in owned for port in ports)
    names = ", ".join(f.name for f in functions)
    if max(uses, default=-1) + 1 != count:
        yield from _count(node, side, max(uses, default=-1) + 1, f"its code ({names})")
        return
    for port in range(count):
        if not uses[port] or (side == "input" and uses[port] > 1):  # outputs may be shared
            message = f"expected one function ({names}) to own it, got {uses[port]}"
            yield Fault("arity", node.name, f"{side} {port}", message, "give each port to one function")


def _map_faults(
    node: FlowNode, side: str, count: int, point: ProcessPoint, maps: Sequence[PortMap]
) -> Iterator[Fault]:
    method = f"map_{side}"
    for m in maps:
        port = f"{side} {m.node_index}"
        if m.point is not point:
            hint = "map ports of the process point it was given"
            yield Fault("arity", node.name, port, f"{method} names {m.point!r}, which the node does not have", hint)
        if not 0 <= m.node_index < count:
            message = f"{method}: expected one of the node's {side}s from 0 to {count - 1}, got {m.node_index}"
            yield Fault("arity", node.name, port, message, "ports count from 0")
        if not 0 <= m.point_index < count:
            message = f"{method}: expected one of the point's {side}s from 0 to {count - 1}, got {m.point_index}"
            yield Fault("arity", node.name, port, message, "ports count from 0")
    for what, numbers in (("node", [m.node_index for m in maps]), ("point", [m.point_index for m in maps])):
        for number, times in Counter(numbers).items():
            if times > 1:
                message = f"{method}: expected {side} {number} of the {what} once, got it {times} times"
                yield Fault("arity", node.name, f"{side} {number}", message, "map each port once")
    missing = set(range(count)) - {m.node_index for m in maps}
    if maps and missing:
        message = f"{method}: expected all {count} {side}s once one is mapped, missing {sorted(missing)}"
        yield Fault("arity", node.name, "", message, f"call {method} for each, or for none")


def _attribute_faults(node: FlowNode) -> Iterator[Fault]:
    for name, value in node.attrs.items():
        known = NODE_ATTRIBUTES.get(name)
        if known is None:
            message = f"unknown attribute {name!r}"
            yield Fault("attribute", node.name, "", message, nearest(name, NODE_ATTRIBUTES))
        elif node.attrs.get(known.switch, True) is not False and (complaint := known.complaint(value)) is not None:
            yield Fault("attribute", node.name, "", f"attribute {name!r}: {complaint}", known.meaning)


def _cycles(nodes: Sequence[FlowNode]) -> Iterator[Fault]:
    """One fault for each cycle that a walk against the edges closes."""
    state: dict[FlowNode, int] = {}  # 1: on the current path, 2: done
    for start in nodes:
        if start in state:
            continue
        path = [start]
        pending = [_producers(start)]
        state[start] = 1
        while path:
            producer = next(pending[-1], None)
            if producer is None:
                state[path.pop()] = 2
                pending.pop()
            elif state.get(producer) == 1:
                circle = [*path[path.index(producer):], producer]
                way = " -> ".join(node.name for node in reversed(circle))
                hint = "no node may need its own result, also not by way of other nodes"
                yield Fault("cycle", producer.name, "", f"expected no cycle, got {way}", hint)
            elif producer not in state:
                state[producer] = 1
                path.append(producer)
                pending.append(_producers(producer))


def _producers(node: FlowNode) -> Iterator[FlowNode]:
    return iter(dict.fromkeys(source.node for source in node.sources if isinstance(source, FlowOutput)))
