"""Small helpers for executor tests: messages, nodes and whole graphs without a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dflow_core.executor import GraphClient, InlineBackend, NodeRunner
from dflow_core.message import FlowMsg, HeapBlock, MsgInfo, decode, encode, root_token
from dflow_core.model import Endpoint, FlowModel, ModelEndpoints, ModelRelation, UdfModel
from dflow_core.spi import FlowFunc, RunContext
from dflow_core.types import FuncSpec


def message(trans_id: int, value: object = None, **head: object) -> FlowMsg:
    """A fed message of a transaction."""
    info = MsgInfo(trans_id=trans_id, token=root_token(trans_id), **head)  # type: ignore[arg-type]
    return encode(np.array(trans_id) if value is None else value, info)


class Func(FlowFunc):
    """A FlowFunc made of a plain function over values; a list result is a stream of parts, Nothing sends nothing."""

    def __init__(self, call: Callable[..., object], gather: bool = False) -> None:
        self.call = call
        self.gather = gather
        self.closed = 0

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        values = [decode(msg) for msg in inputs]
        result = self.call(values) if self.gather else self.call(*values)
        if isinstance(result, list):
            context.open_parts()
            for item in result:
                context.send_part(0, item)
        elif isinstance(result, tuple):
            for index, item in enumerate(result):
                if item is not NOTHING:
                    context.send(index, item)
        elif result is not NOTHING:
            context.send(0, result)

    def close(self) -> None:
        self.closed += 1


NOTHING = object()


@dataclass
class Node:
    """One node of a test graph: `inputs` are names of graph inputs or `node:output`."""

    name: str
    func: FlowFunc
    inputs: Sequence[str]
    outputs: int = 1
    gather: bool = False
    holds: bool = False
    sent: list[tuple[int, FlowMsg]] = field(default_factory=list)

    def model(self) -> UdfModel:
        spec = FuncSpec(
            self.name, tuple(range(len(self.inputs))), tuple(range(self.outputs)), self.gather, self.holds
        )
        return UdfModel(name=self.name, engine="TEST", functions=(spec,))

    def runner(self, **options: object) -> NodeRunner:
        return NodeRunner(
            self.model(), [self.func], instance=0, sink=lambda output, msg: self.sent.append((output, msg)),
            alloc=HeapBlock, **options,  # type: ignore[arg-type]
        )


def flow_model(nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]) -> FlowModel:
    """A FlowModel of test nodes."""
    sides = {n.name: ModelEndpoints(n.name, tuple(n.inputs), tuple(f"{n.name}:{i}" for i in range(n.outputs)))
             for n in nodes}
    names = [*inputs, *(name for side in sides.values() for name in side.outputs)]
    relation = ModelRelation(
        tuple(Endpoint(name) for name in names), sides, ModelEndpoints("test", tuple(inputs), tuple(outputs)),
        tuple(inputs), tuple(outputs),
    )
    return FlowModel("test", {n.name: n.model() for n in nodes}, relation)


def inline(nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str], **options: object) -> GraphClient:
    """A client over test nodes in this thread."""
    by_name: Mapping[str, Node] = {n.name: n for n in nodes}
    loaders = {"TEST": lambda model, _context: [by_name[model.name].func]}
    backend = InlineBackend(flow_model(nodes, inputs, outputs), loaders, **options)  # type: ignore[arg-type]
    return GraphClient("test", inputs, outputs, backend)
