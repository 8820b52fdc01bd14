"""Compiled model files become graphs inside their nodes, ready to be flattened; nothing of them is compiled again."""

from __future__ import annotations

from dataclasses import replace

from dflow_core.compiler.ir import IrCall, IrGraph, IrInput, IrNode, IrOutput, map_bodies
from dflow_core.compiler.passes.base import Pass, PassResult
from dflow_core.errors import Fault, GraphError, ModelFormatError
from dflow_core.graph import ModelProcessPoint, QueueSettings
from dflow_core.model import FlowModel, PneModel, read_om
from dflow_core.types import TensorSpec


class LoadModels(Pass):
    """Opens the files of ModelProcessPoints, in graphs inside too."""

    name = "load_models"

    def apply(self, graph: IrGraph) -> PassResult:
        changed: list[str] = []
        return PassResult(_loaded(graph, changed), tuple(changed))

    def ensures(self, graph: IrGraph) -> str | None:
        left = [n.name for n in graph.nodes if isinstance(n.point, ModelProcessPoint) and not (n.body or n.compiled)]
        return f"no model is loaded for {', '.join(left)}" if left else None


def _loaded(graph: IrGraph, changed: list[str]) -> IrGraph:
    graph = map_bodies(graph, lambda body: _loaded(body, changed))
    nodes: list[IrNode] = []
    for node in graph.nodes:
        point = node.point
        if not isinstance(point, ModelProcessPoint) or node.compiled is not None:
            nodes.append(node)
            continue
        body = body_of(_read(node, point.path), point)
        _check_ports(node, body, point.path)
        nodes.append(replace(node, body=body))
        changed.append(f"{node.name}: {len(body.nodes)} compiled models came from {point.path}")
    return replace(graph, nodes=tuple(nodes))


def body_of(model: FlowModel, point: ModelProcessPoint) -> IrGraph:
    """A compiled graph as a graph of nodes that are compiled already."""
    relation = model.relation

    def queue(endpoint: str) -> QueueSettings:
        end = relation.endpoint(endpoint)
        return QueueSettings(end.depth, end.overflow, end.max_age)

    nodes = []
    for name, sides in relation.submodels.items():
        compiled = model.submodels[name]
        nodes.append(
            IrNode(
                name=name,
                point=point,
                inputs=sides.inputs,
                outputs=sides.outputs,
                queues=tuple(map(queue, sides.outputs)),
                options=compiled.options,
                engine=compiled.engine,
                functions=compiled.functions,
                labels=compiled.labels or (name,),
                balance=compiled.balance,
                compiled=compiled,
                calls=tuple(
                    IrCall(one.key, None, tuple(IrInput(_short(e), e, None, queue(e)) for e in one.inputs), one.outputs)
                    for one in relation.invoked
                    if one.model == name
                ),
            )
        )
    specs = {e: _spec(model.submodels[n], port) for e in relation.root.inputs for n, port in relation.consumers(e)[:1]}
    roots = zip(relation.input_names, relation.root.inputs)
    inputs = tuple(IrInput(name, e, specs.get(e), queue(e)) for name, e in roots)
    outputs = tuple(IrOutput(name, e) for name, e in zip(relation.output_names, relation.root.outputs))
    return IrGraph(model.name, inputs, tuple(nodes), outputs)


def _short(endpoint: str) -> str:
    return endpoint.rpartition(":")[2]


def _spec(model: PneModel, port: int) -> TensorSpec | None:
    return model.inputs[port] if port < len(model.inputs) else None


def _read(node: IrNode, path: str) -> FlowModel:
    try:
        model = read_om(path)
        if set(model.relation.submodels) != set(model.submodels):
            raise ModelFormatError("its relation and its submodels have different names", path=path)
    except ModelFormatError as error:
        error.node = node.name
        raise
    return model


def _check_ports(node: IrNode, body: IrGraph, path: str) -> None:
    faults = [
        Fault("arity", node.name, "", f"{path} has {len(have)} {what}s, the node {len(want)}")
        for what, have, want in (("input", body.inputs, node.inputs), ("output", body.outputs, node.outputs))
        if len(have) != len(want)
    ]
    if faults:
        raise GraphError(node.name, faults)
