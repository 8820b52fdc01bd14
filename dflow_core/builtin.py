"""What the core registers itself, through the hooks it offers to others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dflow_core.spi import DeployerEntry, PointEntry, TransportEntry, hookimpl

if TYPE_CHECKING:
    from dflow_core.graph import ProcessPoint
    from dflow_core.spi import Deployer, Transport

_POINT_CLASSES = {
    "graph": "GraphProcessPoint",
    "func": "FuncProcessPoint",
    "flow_graph": "FlowGraphProcessPoint",
    "model": "ModelProcessPoint",
}


@hookimpl
def dflow_register_process_points() -> Sequence[PointEntry]:
    """Kinds of process points every graph may have."""
    return [PointEntry(kind, _class(name), _to_bytes, _from_bytes) for kind, name in _POINT_CLASSES.items()]


@hookimpl
def dflow_register_transports() -> Sequence[TransportEntry]:
    """Queues between the threads of one process."""
    return [TransportEntry("inproc", factory=_inproc, cross_process=False)]


@hookimpl
def dflow_register_deployers() -> Sequence[DeployerEntry]:
    """This machine."""
    return [DeployerEntry("local", _local)]


def _class(name: str) -> Callable[[], type[ProcessPoint]]:
    def cls() -> type[ProcessPoint]:
        from dflow_core import graph

        found: type[ProcessPoint] = getattr(graph, name)
        return found

    return cls


def _to_bytes(point: ProcessPoint) -> bytes:
    """A core point as the bytes of a graph that has it as its only node; graphs write these kinds without our help."""
    from dflow_core.graph import FlowData, FlowGraph, FlowNode, FlowOutput, serialize_graph

    inputs = 1 + max((port for function in point.functions for port in function.inputs), default=0)
    outputs = 1 + max((port for function in point.functions for port in function.outputs), default=0)
    node = FlowNode(inputs, outputs, "node")
    node.add_process_point(point)
    node(*[FlowData(f"input{port}") for port in range(inputs)])
    return serialize_graph(FlowGraph([FlowOutput(node, port) for port in range(outputs)], name="point"))


def _from_bytes(data: bytes) -> ProcessPoint:
    from dflow_core.graph import deserialize_graph

    return deserialize_graph(data).nodes[0].points[0]


def _inproc() -> Transport:
    from dflow_core.builtin_transport import InprocTransport

    return InprocTransport()


def _local() -> Deployer:
    from dflow_core.deploy import LocalDeployer

    return LocalDeployer()
