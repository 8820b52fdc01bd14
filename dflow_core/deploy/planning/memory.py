"""How much memory a plan will take, as far as shapes tell."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dflow_core.model import DeployPlan, FlowModel, GraphModel, PneModel, SerializedModel
from dflow_core.types import TensorSpec

_HEAD = 1280


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Memory a plan will take.

    Args:
        models: Bytes of models, once in each process that holds them.
        queues: Bytes of messages when every queue is full, as far as their shapes are known.
        unknown: Endpoints whose messages are of unknown size.
    """

    models: int
    queues: int
    unknown: tuple[str, ...]


def estimate_memory(model: FlowModel, plan: DeployPlan, free_dim: int = 1) -> MemoryEstimate:
    """What a plan will take; weights of a compiled blob count once, like those of its source.

    Args:
        model: The graph.
        plan: Its plan.
        free_dim: What free dimensions are counted as.
    """
    models = sum(_weight(model.submodels[instance.model]) for instance in plan.instances)
    depths = {queue.name: queue.depth for queue in plan.queues}
    queues, unknown = 0, []
    for name, sides in model.relation.submodels.items():
        for endpoint, spec in zip(sides.outputs, model.submodels[name].outputs):
            size = message_size(spec, free_dim)
            first = next(instance for instance in plan.instances if instance.model == name)
            routes = first.outputs[sides.outputs.index(endpoint)]
            if size is None:
                unknown += [endpoint] if routes else []
                continue
            # A message that goes to several readers lies in memory once: the deepest queue counts.
            queues += size * max((sum(depths[queue] for queue in route.queues) for route in routes), default=0)
    return MemoryEstimate(models, queues, tuple(unknown))


def message_size(spec: TensorSpec, free_dim: int = 1) -> int | None:
    """Bytes of a message with such a tensor, or None if its shape or element size is unknown."""
    if spec.shape is None or not spec.dtype.itemsize:
        return None
    return _HEAD + spec.dtype.itemsize * math.prod(free_dim if dim < 0 else dim for dim in spec.shape)


def _weight(model: PneModel) -> int:
    if isinstance(model, GraphModel):
        return max(len(model.blob), len(model.source) + sum(map(len, model.side_files.values())))
    return len(model.data) if isinstance(model, SerializedModel) else 0
