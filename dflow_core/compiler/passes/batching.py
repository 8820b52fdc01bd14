"""Batch attributes of inputs become nodes of their own (runtime-semantics.md section 19)."""

from __future__ import annotations

from dataclasses import replace

from dflow_core.compiler.builtins import COUNT_BATCH, TIME_BATCH
from dflow_core.compiler.ir import IrGraph, IrNode, map_bodies
from dflow_core.compiler.passes.base import Pass, PassResult
from dflow_core.errors import Fault, GraphError
from dflow_core.graph import Batch, FuncProcessPoint, QueueSettings, TimeBatch
from dflow_core.types import FuncSpec


class InsertBatchNodes(Pass):
    """Puts a built-in node in front of every input that wants its messages put together, inside graphs too."""

    name = "batching"

    def apply(self, graph: IrGraph) -> PassResult:
        changed: list[str] = []
        return PassResult(_with_batchers(graph, changed), tuple(changed))

    def ensures(self, graph: IrGraph) -> str | None:
        left = [node.name for node in graph.nodes if any(node.batches)]
        return f"batch attributes are left on {', '.join(left)}" if left else None


def _with_batchers(graph: IrGraph, changed: list[str]) -> IrGraph:
    graph = map_bodies(graph, lambda body: _with_batchers(body, changed))
    if not any(any(node.batches) for node in graph.nodes):
        return graph
    taken = {node.name for node in graph.nodes}
    nodes: list[IrNode] = []
    for node in graph.nodes:
        inputs = list(node.inputs)
        for port, batches in enumerate(node.batches):
            if not batches:
                continue
            if len(batches) > 1:
                text = f"{len(batches)} ways to put messages together, at most one is possible"
                raise GraphError(graph.name, [Fault("attribute", node.name, f"input {port}", text)])
            batcher = _batcher(node, port, batches[0])
            if batcher.name in taken:
                text = f"a node is called {batcher.name!r} already"
                hint = "rename that node: names of this form belong to the compiler"
                raise GraphError(graph.name, [Fault("duplicate-name", node.name, f"input {port}", text, hint)])
            nodes.append(batcher)
            inputs[port] = batcher.outputs[0]
            changed.append(f"{batcher.name}: put in front of input {port}")
        nodes.append(replace(node, inputs=tuple(inputs), batches=()))
    return replace(graph, nodes=tuple(nodes))


def _batcher(node: IrNode, port: int, batch: Batch) -> IrNode:
    builtin = TIME_BATCH if isinstance(batch, TimeBatch) else COUNT_BATCH
    point = FuncProcessPoint(builtin=builtin, name=builtin)
    for key, value in _parameters(batch).items():
        point.set_init_param(key, value)
    name = f"{node.name}_{builtin}_{port}"
    return IrNode(
        name=name,
        point=point,
        inputs=(node.inputs[port],),
        outputs=(f"{name}:0",),
        queues=(QueueSettings(),),
        settings=node.settings,
        functions=(FuncSpec("", (0,), (0,), holds_inputs=True, n_mapping=True),),
        labels=node.labels,
    )


def _parameters(batch: Batch) -> dict[str, object]:
    """Init parameters of the built-in; times in seconds."""
    if isinstance(batch, TimeBatch):
        return {"window": batch.time_window, "batch_dim": batch.batch_dim, "drop_remainder": batch.drop_remainder}
    return {
        "batch_size": batch.batch_size, "timeout": batch.timeout, "padding": batch.padding,
        "slide_stride": batch.slide_stride,
    }
