"""Where what functions invoke is to run, as the `invoke_list` of a deploy file says (config-and-options.md 4.4)."""

from __future__ import annotations

from dataclasses import replace

from dflow_core.deploy.planning.deploy_info import Assignment, DeployInfo, Invocation, read_deploy_info
from dflow_core.model import FlowModel, InvokedEndpoints, PneModel, called_by
from dflow_core.options import nearest


def labels_of(sub: PneModel) -> tuple[str, ...]:
    """What a deploy file may call a node, the nearest first."""
    return sub.labels or (sub.name,)


class Invocations:
    """The invoke lists of a deploy file.

    Args:
        model: The graph.
        info: The deploy file; faults of the files it names become its own.
    """

    def __init__(self, model: FlowModel, info: DeployInfo) -> None:
        self._model = model
        self._info = info
        self._callers = called_by(model.relation)
        self._files: dict[str, DeployInfo] = {}
        self._used: set[str] = set()

    def instead_of(self, name: str, found: Assignment) -> tuple[Assignment, DeployInfo]:
        """Where a node is to run, and the file that says so.

        Args:
            name: Name of its submodel.
            found: What the deploy file says of it, or of the node around it or that invokes it.
        """
        one = self._callers.get(name)
        if one is None or found.node not in labels_of(self._model.submodels[one.model]):
            return found, self._info
        invocation = next((known for known in found.invocations if known.name == one.key), None)
        if invocation is None:
            return replace(found, invoked=True), self._info
        self._used.add(invocation.key)
        if invocation.file:
            return self._from_file(name, one, found, invocation)
        if not invocation.devices:
            return replace(found, invoked=True), self._info
        if len(invocation.devices) != len(found.devices):
            text = f"{found.node!r} has {len(found.devices)} devices, what it invokes has {len(invocation.devices)}"
            self._info.file.fault("invoke", invocation.key, text, "list one device for each of the node's")
        place = Assignment(found.node, invocation.devices, invocation.spares, invocation.key, invocation.key)
        return place, self._info

    def complain(self) -> None:
        """Note invocations that no node makes, and what is wrong with files for graphs that are invoked."""
        keys = {one.key for one in self._model.relation.invoked}
        for found in self._info.assignments:
            for invocation in found.invocations:
                if invocation.key not in self._used and invocation.name:
                    text = f"nothing that is listed here invokes {invocation.name!r}"
                    self._info.file.fault("unknown", invocation.key, text, nearest(invocation.name, keys))
        for inner in self._files.values():
            self._info.file.faults.extend(inner.file.faults)

    def _from_file(
        self, name: str, one: InvokedEndpoints, found: Assignment, invocation: Invocation
    ) -> tuple[Assignment, DeployInfo]:
        """Where a node of an invoked graph is to run, by the deploy file of that graph."""
        if invocation.file not in self._files:
            self._files[invocation.file] = read_deploy_info(invocation.file)
            if len(found.devices) > 1:
                text = "a node with several instances cannot have a deploy file for a graph that it invokes"
                self._info.file.fault("invoke", invocation.key, text, "list one device for the node")
        inner = self._files[invocation.file]
        own = [label.rpartition(f"/{one.key}/")[2] for label in labels_of(self._model.submodels[name])]
        place = next((known for known in inner.assignments if known.node in own), None)
        if place is None and inner.assignments:
            inner.file.fault("missing", "", f"node {own[0]!r} is not listed; where one node is, all have to be")
        return place or replace(found, invoked=True), inner if place is not None else self._info
