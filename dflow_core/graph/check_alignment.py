"""Faults of joins: inputs of one function that can never belong to one transaction.

Every stream has a grain, the list of what cut it up or put it together since the caller fed it: a generator cuts a
transaction into parts, a batch puts messages together. Streams can be joined where their grains are equal. A gathering
function takes all parts of a transaction and so ends the cutting; equal batches on all inputs of a function give equal
grains. What comes out of code the graph knows nothing of (ready-made or hand-written functions, points of plugins) may
be joined with anything: the executor checks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from dflow_core.errors import Fault
from dflow_core.graph.batching import Batch
from dflow_core.graph.flow_data import FlowData
from dflow_core.graph.node import FlowNode, FlowOutput, GraphView
from dflow_core.types import FuncSpec

Grain: TypeAlias = "tuple[tuple[str, str], ...] | None"
"""What happened to a stream: ("parts", generator) or ("batch", how), oldest first; None if that is not known."""


def alignment_faults(graph: GraphView) -> list[Fault]:
    """Functions whose inputs differ in grain, in a graph (without cycles) and the graphs inside it."""
    faults: list[Fault] = []
    _walk(graph, [()] * len(graph.inputs), "", faults)
    return faults


def _walk(graph: GraphView, given: Sequence[Grain], scope: str, faults: list[Fault]) -> list[Grain]:
    fed: Mapping[FlowData, Grain] = dict(zip(graph.inputs, given))
    made: dict[FlowOutput, Grain] = {}
    for node in graph.nodes:
        grains = [
            (fed.get(source, ()) if isinstance(source, FlowData) else made.get(source, ())) if source else ()
            for source in node.sources
        ]
        grains = [_batched(grain, node.batching(i)) for i, grain in enumerate(grains)]
        inner = node.point.nested if node.point else None
        if inner is not None:
            order = {point_port: node_port for node_port, point_port in enumerate(node.point_inputs())}
            inside = [grains[order[i]] if i in order else () for i in range(len(inner.inputs))]
            results = _walk(inner, inside, f"{scope}{node.name}/", faults)
            outputs = [results[i] if i < len(results) else () for i in node.point_outputs()]
        else:
            outputs = _node(node, grains, scope, faults)
            for name, point in (node.point.invoked if node.point else {}).items():
                if point.nested is not None:
                    _walk(point.nested, [()] * len(point.nested.inputs), f"{scope}{node.name}/{name}/", faults)
        made.update(zip(node.outputs, outputs))
    return [made.get(output, ()) for output in graph.outputs]


def _node(node: FlowNode, grains: Sequence[Grain], scope: str, faults: list[Fault]) -> list[Grain]:
    every = FuncSpec("", tuple(range(node.input_num)), tuple(range(node.output_num)))
    functions = (node.point.functions if node.point else ()) or (every,)
    is_known = node.point is not None and node.point.is_one_to_one
    outputs: list[Grain] = [()] * node.output_num
    for function in functions:
        taken = [(port, grains[port]) for port in function.inputs if port < len(grains)]
        if function.gather:
            faults += _gather_faults(node, taken, scope)
            taken = [(port, _gathered(grain)) for port, grain in taken]
        faults += _join_faults(node, taken, scope)
        grain = next((grain for _, grain in taken if grain is not None), None)
        if not is_known or (function.n_mapping and not function.generator):
            grain = None
        elif function.generator and grain is not None:
            grain = (*grain, ("parts", f"{scope}{node.name}" + (f".{function.name}" if len(functions) > 1 else "")))
        for port in function.outputs:
            if port < len(outputs):
                outputs[port] = grain
    return outputs


def _gather_faults(node: FlowNode, taken: Sequence[tuple[int, Grain]], scope: str) -> list[Fault]:
    """A batch mixes transactions, so no function can have all parts of one of them."""
    message = "it gathers the parts of one transaction, and gets {}, which are of several"
    hint = "gather before the batch, or put an Unbatch node in between"
    return [
        Fault("alignment", f"{scope}{node.name}", f"input {port}", message.format(_words(grain)), hint)
        for port, grain in taken
        if grain and grain[-1][0] == "batch"
    ]


def _join_faults(node: FlowNode, taken: Sequence[tuple[int, Grain]], scope: str) -> list[Fault]:
    known = [(port, grain) for port, grain in taken if grain is not None]
    if not known:
        return []
    first_port, first = known[0]
    faults = []
    for port, grain in known[1:]:
        if grain != first:
            message = (
                f"expected what belongs together with input {first_port} ({_words(first)}), got {_words(grain)}; "
                "they never meet in one transaction"
            )
            hint = "gather the parts first (gather=True), send both ways through the generator, or batch both alike"
            faults.append(Fault("alignment", f"{scope}{node.name}", f"input {port}", message, hint))
    return faults


def _batched(grain: Grain, batches: Sequence[Batch]) -> Grain:
    return (*grain, ("batch", str(batches[0]))) if batches and grain is not None else grain


def _gathered(grain: Grain) -> Grain:
    if grain is None:
        return None
    end = len(grain)
    while end and grain[end - 1][0] == "parts":
        end -= 1
    return grain[:end]


def _words(grain: Grain) -> str:
    if not grain:
        return "one message for each that is fed"
    kind, what = grain[-1]
    return f"the parts that {what!r} makes" if kind == "parts" else f"batches by {what}"
