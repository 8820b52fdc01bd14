"""Instances of the graphs that functions call: as many as of the function, for the i-th serves the i-th."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dflow_core.errors import OptionError
from dflow_core.model import FlowModel, NodePlacement, called_by


def with_called_instances(model: FlowModel) -> FlowModel:
    """The graph with as many instances of what a function calls as there are wanted of the function.

    Raises:
        OptionError: something that is called wants another number itself.
    """
    callers = called_by(model.relation)
    submodels = dict(model.submodels)
    for name, sub in submodels.items():  # functions come before what they call
        if name in callers:
            count = submodels[callers[name].model].options.instances
            _check(name, sub.options.instances, count)
            submodels[name] = replace(sub, options=replace(sub.options, instances=count))
    return replace(model, submodels=submodels) if callers else model


def call_notes(model: FlowModel, placed: Mapping[str, NodePlacement]) -> list[str]:
    """What calls what, a sentence each.

    Raises:
        OptionError: a placement has other numbers of instances.
    """
    callers = called_by(model.relation)
    for name, one in callers.items():
        _check(name, len(placed[name].places), len(placed[one.model].places), exact=True)
    notes = []
    for one in model.relation.invoked:
        inside = [name for name, caller in callers.items() if caller == one]
        count = len(placed[one.model].places)
        each = f", {count} times: each instance has its own" if count > 1 else ""
        notes.append(f"{one.model}: calls {one.key!r}, which is {', '.join(inside)}{each}")
    return notes


def _check(name: str, wanted: int, count: int, exact: bool = False) -> None:
    if wanted != count and (exact or wanted != 1):
        raise OptionError(
            f"it has {wanted} instances, and the function that calls it has {count}", node=name,
            hint="leave instances to the function: each of its instances has its own of what it calls",
        )
