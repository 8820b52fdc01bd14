"""A compiled graph taken apart: what belongs to the graph itself, and what to each graph that a function calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dflow_core.model.flow_model import FlowModel, InvokedEndpoints, ModelEndpoints, ModelRelation


def own_part(model: FlowModel) -> FlowModel:
    """The graph without what its functions call."""
    if not model.relation.invoked:
        return model
    called = called_by(model.relation)
    return _part(model, model.name, model.relation.root, [name for name in model.submodels if name not in called])


def called_part(model: FlowModel, one: InvokedEndpoints) -> FlowModel:
    """A graph that a function calls, with what functions in there call."""
    relation = model.relation
    inside, found = set[str](), _behind(relation, one.outputs)
    while found:
        inside |= found
        called = [inner for inner in relation.invoked if inner.model in found]
        found = {name for inner in called for name in _behind(relation, inner.outputs)}
    root = ModelEndpoints(one.name, one.inputs, one.outputs)
    part = _part(model, one.name, root, [name for name in model.submodels if name in inside])
    inputs = tuple(endpoint.rpartition(":")[2] for endpoint in one.inputs)
    return replace(part, relation=replace(part.relation, input_names=inputs, output_names=one.outputs))


def called_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options in force in a graph that a function calls: an exception there ends the call, so nobody else is told."""
    return {**options, "exception_catch": "0"}


def called_by(relation: ModelRelation) -> Mapping[str, InvokedEndpoints]:
    """For each submodel of a graph that a function calls, which one that is."""
    found = [(one, _behind(relation, one.outputs)) for one in relation.invoked]
    return {name: one for one, inside in found for name in relation.submodels if name in inside}


def _behind(relation: ModelRelation, endpoints: Iterable[str]) -> set[str]:
    """The models that some endpoints come from, all the way up."""
    producers = {end: name for name, sides in relation.submodels.items() for end in sides.outputs}
    found: set[str] = set()
    pending = list(endpoints)
    while pending:
        name = producers.get(pending.pop())
        if name is not None and name not in found:
            found.add(name)
            pending += relation.submodels[name].inputs
    return found


def _part(model: FlowModel, name: str, root: ModelEndpoints, members: Iterable[str]) -> FlowModel:
    relation = model.relation
    sides = {member: relation.submodels[member] for member in members}
    invoked = tuple(one for one in relation.invoked if one.model in sides)
    used = {end for side in (root, *sides.values()) for end in (*side.inputs, *side.outputs)}
    used |= {end for one in invoked for end in (*one.inputs, *one.outputs)}
    joined = replace(
        relation, endpoints=tuple(end for end in relation.endpoints if end.name in used), submodels=sides, root=root,
        invoked=invoked,
    )
    return replace(model, name=name, submodels={member: model.submodels[member] for member in sides}, relation=joined)
