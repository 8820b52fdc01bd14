"""Faults of dtype and shape, where both ends of an edge are known from model files and schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

from dflow_core.errors import DflowError, Fault, ModelFormatError
from dflow_core.graph.batching import Batch, CountBatch
from dflow_core.graph.flow_data import FlowData
from dflow_core.graph.node import FlowNode, FlowOutput, GraphView, ProcessPoint
from dflow_core.types import TensorSpec


class PointDescription(Protocol):
    """What a process point takes and gives."""

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """One entry per input."""

    @property
    def outputs(self) -> Sequence[TensorSpec]:
        """One entry per output."""


Describe: TypeAlias = Callable[[ProcessPoint, int, int], "PointDescription | None"]
"""Describes a point for a node with so many inputs and outputs; None if nothing is known."""


def type_faults(graph: GraphView, describe: Describe | None, max_depth: int) -> list[Fault]:
    """Faults of the types in one graph; `max_depth` levels of nested graphs are looked into."""
    known = _Types(describe, max_depth)
    ports = {node: known.ports(node) for node in graph.nodes}
    faults = known.faults
    first_use: dict[FlowData, tuple[TensorSpec, str]] = {}
    for node in graph.nodes:
        for i, (want, source) in enumerate(zip(ports[node].inputs, node.sources)):
            if want is None or source is None:
                continue
            got = source.schema if isinstance(source, FlowData) else _output_spec(ports, source)
            origin = f"from {source.name!r}"
            batches = node.batching(i)
            if got is None and isinstance(source, FlowData) and not batches:
                got, origin = first_use.setdefault(source, (want, f"which {node.name!r} takes from the same input"))
            if got is not None:
                faults += _edge_faults(node, i, want, got, origin, batches)
    return faults


class _Ports:
    """What is known of the ports of a node; None where nothing is."""

    def __init__(self, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec | None]) -> None:
        self.inputs = inputs
        self.outputs = outputs


class _Types:
    """Asks for the types of nodes and keeps the faults that come up."""

    def __init__(self, describe: Describe | None, max_depth: int) -> None:
        self.describe = describe
        self.max_depth = max_depth
        self.faults: list[Fault] = []

    def ports(self, node: FlowNode) -> _Ports:
        """Types at the ports of a node, in the order of the node's ports."""
        nothing = _Ports([None] * node.input_num, [None] * node.output_num)
        if node.point is None:
            return nothing
        inner = node.point.nested
        if inner is not None:
            found = self._nested(inner)
        else:
            described = self._described(node, node.point)
            if described is None:
                return nothing
            found = _Ports(described.inputs, described.outputs)
            self._count(node, "input", len(found.inputs), node.input_num)
            self._count(node, "output", len(found.outputs), node.output_num)
        return _Ports(_picked(found.inputs, node.point_inputs()), _picked(found.outputs, node.point_outputs()))

    def _described(self, node: FlowNode, point: ProcessPoint) -> PointDescription | None:
        if self.describe is None:
            return None
        try:
            return self.describe(point, node.input_num, node.output_num)
        except DflowError as error:
            kind = "model" if isinstance(error, ModelFormatError) else "engine"
            self.faults.append(Fault(kind, node.name, "", error.message, error.hint or _MODEL_HINT))
            return None

    def _count(self, node: FlowNode, side: str, wanted: int, got: int) -> None:
        if wanted != got:
            message = f"expected {wanted} {side}s, as the model has, got {got}"
            self.faults.append(Fault("arity", node.name, "", message, f"make the node with {side}_num={wanted}"))

    def _nested(self, graph: GraphView) -> _Ports:
        if self.max_depth <= 0:
            return _Ports((), ())
        inside = _Types(self.describe, self.max_depth - 1)  # its faults are found when that graph is checked itself
        ports = {node: inside.ports(node) for node in graph.nodes}
        wanted = {data: data.schema for data in graph.inputs}
        for node in graph.nodes:
            for i, (spec, source) in enumerate(zip(ports[node].inputs, node.sources)):
                if isinstance(source, FlowData) and wanted.get(source) is None and not node.batching(i):
                    wanted[source] = spec
        outputs = [_output_spec(ports, output) for output in graph.outputs]
        return _Ports([wanted[data] for data in graph.inputs], outputs)


_MODEL_HINT = "check the path, and that the file is a whole model of the framework it is given as"


def _picked(specs: Sequence[TensorSpec | None], order: Sequence[int]) -> list[TensorSpec | None]:
    return [specs[i] if 0 <= i < len(specs) else None for i in order]


def _output_spec(ports: dict[FlowNode, _Ports], output: FlowOutput) -> TensorSpec | None:
    specs = ports[output.node].outputs if output.node in ports else ()
    return specs[output.index] if 0 <= output.index < len(specs) else None


def _edge_faults(
    node: FlowNode, port: int, want: TensorSpec, got: TensorSpec, origin: str, batches: Sequence[Batch]
) -> Iterator[Fault]:
    for batch in batches[:1]:
        rank = len(got.shape) if got.shape is not None else None
        if rank is not None and not isinstance(batch, CountBatch) and batch.batch_dim >= rank:
            message = f"expected a batch_dim below the rank {rank} of {got} {origin}, got {batch.batch_dim}"
            yield Fault("shape", node.name, f"input {port}", message, "use -1 to stack along a new dimension")
            return
        got = _batched(got, batch)
    if want.conflict(got) is None:
        return
    dtype_differs = TensorSpec(want.dtype).conflict(TensorSpec(got.dtype)) is not None
    what = "dtype" if dtype_differs else "shape"
    hint = "convert it in a function in between" if dtype_differs else "reshape it in a function in between"
    yield Fault(what, node.name, f"input {port}", f"expected {want}, got {got} {origin}: {what} differs", hint)


def _batched(spec: TensorSpec, batch: Batch) -> TensorSpec:
    if spec.shape is None:
        return spec
    if isinstance(batch, CountBatch):
        partial = batch.timeout > 0 and not batch.padding
        return TensorSpec(spec.dtype, (-1 if partial else batch.batch_size, *spec.shape), spec.name)
    if batch.batch_dim < 0:
        return TensorSpec(spec.dtype, (-1, *spec.shape), spec.name)
    shape = tuple(-1 if i == batch.batch_dim else dim for i, dim in enumerate(spec.shape))
    return TensorSpec(spec.dtype, shape, spec.name)
