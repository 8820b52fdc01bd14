"""Which inputs of a graph each of its outputs needs, for transactions that are fed in pieces."""

from __future__ import annotations

from collections.abc import Sequence

from dflow_core.model import FlowModel, PneModel


def needed_inputs(model: FlowModel) -> tuple[frozenset[int], ...]:
    """For each root output, the root inputs that a message there is made of.

    A function of a node needs its own inputs only, whatever the node's other functions take.

    Args:
        model: The compiled graph.
    """
    relation = model.relation
    roots = {endpoint: port for port, endpoint in enumerate(relation.root.inputs)}
    writers = {
        endpoint: (name, port)
        for name, sides in relation.submodels.items()
        for port, endpoint in enumerate(sides.outputs)
    }

    def needs(endpoint: str) -> frozenset[int]:
        found: set[int] = set()
        seen: set[str] = set()
        pending = [endpoint]
        while pending:
            current = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            if current in roots:
                found.add(roots[current])
            elif current in writers:
                name, port = writers[current]
                pending += _sources(model.submodels[name], relation.submodels[name].inputs, port)
        return frozenset(found)

    return tuple(needs(endpoint) for endpoint in relation.root.outputs)


def _sources(part: PneModel, inputs: Sequence[str], output: int) -> list[str]:
    """Endpoints that an output of a model is made of."""
    owners = [function for function in part.functions if output in function.outputs]
    if not owners:
        return list(inputs)
    return [inputs[port] for function in owners for port in function.inputs if port < len(inputs)]

