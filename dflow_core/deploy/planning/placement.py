"""Which logical device every instance of a graph runs on, and why. A pure function; it finds all faults at once.

Rules (runtime-semantics.md section 21, and what is different here on purpose):

- A node is looked up in a deploy file by its alias or else its name; a node of a graph inside another by the names of
  both, or by that of the node around it. A batching node goes where the node goes that it serves, as one instance.
- A node has one instance on each device that is listed for it, also where one is listed twice.
- If any node is listed, all have to be.
- What a function invokes goes where the function goes, the i-th to the i-th, unless its `invoke_list` says otherwise.
- Engines with devices of their own need such a device; everything else runs on the CPUs of the device's server.
- Without a deploy file a node has as many instances as it asks for: on the CPUs of this machine, or on the devices of
  its engine one after the other; a model with the setting `device` has all of them on that device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dflow_core.deploy.planning.deploy_info import Assignment, DeployInfo
from dflow_core.deploy.planning.device_ids import in_order
from dflow_core.deploy.planning.invocations import Invocations, labels_of
from dflow_core.deploy.planning.topology import EngineDevices, LogicalDevice, Topology
from dflow_core.model import FlowModel, GraphModel, InstancePlace, NodePlacement, PneModel, UdfModel
from dflow_core.options import nearest

HEAVY_LOAD = "_dflow_heavy_load"
"""Init parameter of a compiled C++ function that is to run on the CPUs beside the device it is put on."""
VISIBLE = "_dflow_visible_device_enable"
"""Init parameter of a function that may see the device it is put on and no other, as number 0."""


@dataclass(slots=True)
class Placer:
    """Places the nodes of one graph.

    Args:
        model: The graph.
        topology: Logical devices.
        engines: Devices of the engines that have some.
        shares_process: For each engine id, whether its models share a process.
        host_type: Type of this machine's CPUs.
        default_devices: Logical devices of models that no deploy file places, on engines with devices.
    """

    model: FlowModel
    topology: Topology
    engines: EngineDevices
    shares_process: Mapping[str, bool]
    host_type: str
    default_devices: Sequence[str] = ()
    _told: set[tuple[str, str]] = field(default_factory=set)

    def place(self, info: DeployInfo | None) -> list[NodePlacement]:
        """The placement of every node; faults go to those of the deploy file.

        Args:
            info: The deploy file, if there is one.
        """
        if info is None:
            return [self._unlisted(sub) for sub in self.model.submodels.values()]
        invocations = Invocations(self.model, info)
        listed = {one.node: one for one in info.assignments}
        used: set[str] = set()
        made: list[NodePlacement] = []
        missing: dict[str, None] = {}
        for name, sub in self.model.submodels.items():
            labels = labels_of(sub)
            found = next((listed[label] for label in labels if label in listed), None)
            if found is None:
                missing[labels[-1]] = None
                continue
            used.add(found.node)
            assignment, source = invocations.instead_of(name, found)
            made.append(self._listed(name, sub, assignment, source))
        self._complain(info, used, missing)
        invocations.complain()
        return made

    def _listed(self, name: str, sub: PneModel, found: Assignment, info: DeployInfo) -> NodePlacement:
        order = list if info.keeps_order else in_order
        devices, spares = order(list(found.devices)), order(list(found.spares))
        served = _serves(sub)
        if served:
            devices, spares = devices[:1], []
        line = info.file.lines.get(found.devices_key, 0)
        reason = f"line {line} of {info.file.path}" + (f": batches for {found.node}" if served else "")
        places = [
            self._on(sub, device, spare, found, info)
            for some, spare in ((devices, False), (spares, True))
            for text in some
            if (device := self._device(text, found, info)) is not None
        ]
        if sub.options.instances > 1 and sub.options.instances != len(places):
            reason += f"; instances={sub.options.instances} of the node does not count"
        reason += self._why_cpu(sub, places) + _why_all_visible(sub, places)
        dispatch = sub.options.dispatch or ("least_loaded" if info.dynamic else "transaction")
        return NodePlacement(name, tuple(places), dispatch if len(places) > 1 else "", reason)

    def _why_cpu(self, sub: PneModel, places: Sequence[InstancePlace]) -> str:
        """Why a node that is put on devices which are no CPUs runs on CPUs all the same; "" for others."""
        devices = [self.topology.devices[place.logical_device] for place in places]
        if sub.engine in self.engines or all(device.resource_type == device.host_type for device in devices):
            return ""
        heavy = isinstance(sub, UdfModel) and sub.params.get(HEAVY_LOAD) is True
        return "; on CPUs, as heavy_load says" if heavy else f"; on CPUs, as engine {sub.engine} has no other devices"

    def _device(self, text: str, found: Assignment, info: DeployInfo) -> LogicalDevice | None:
        device = self.topology.devices.get(text)
        if device is None:
            self._fault(info, found, text, f"there is no logical device {text}", f"there are {self.topology.known()}")
        return device

    def _on(
        self, sub: PneModel, device: LogicalDevice, spare: bool, found: Assignment, info: DeployInfo
    ) -> InstancePlace:
        if sub.engine not in self.engines:
            shown = device.hardware if _sees_one(sub) else -1
            number = 0 if shown >= 0 else max(device.number, 0)
            return InstancePlace(f"cpu:{number}", device.host_type, device.name, spare, shown, device.machine)
        if device.number < 0 and found.invoked:  # what a function on the host invokes goes to its first device
            device = self.topology.devices.get(device.name.replace(":-1:", ":0:"), device)
        own = device.engines.get(sub.engine, "")
        if not own:
            has = [d.name for d in self.topology.devices.values() if sub.engine in d.engines]
            text = f"node {sub.name!r}: logical device {device.name} is none that engine {sub.engine} can use"
            if device.hardware >= 0:
                text = f"node {sub.name!r}: engine {sub.engine} does not find device {device.hardware} of {device.name}"
            hint = f"it has {', '.join(has)}" if has else "no logical device has one"
            self._fault(info, found, f"{sub.name} {device.name}", text, hint)
        return InstancePlace(own, device.resource_type, device.name, spare, machine=device.machine)

    def _unlisted(self, sub: PneModel) -> NodePlacement:
        count, dispatch = sub.options.instances, sub.options.dispatch or "free"
        if sub.engine in self.engines:
            places, reason = self._own_devices(sub, count)
        else:
            shared = self.shares_process.get(sub.engine, False)
            places = [InstancePlace(f"cpu:{i if shared else 0}", self.host_type) for i in range(count)]
            reason = (f"instances={count} of the node" if count > 1 else "") + _why_all_visible(sub, places)
        return NodePlacement(sub.name, tuple(places), dispatch if len(places) > 1 else "", reason)

    def _own_devices(self, sub: PneModel, count: int) -> tuple[list[InstancePlace], str]:
        """Places on the devices of an engine, one after the other."""
        known = [d for d in self.topology.devices.values() if sub.engine in d.engines and not d.machine]
        reason = f"one after the other of {len(known)} of engine {sub.engine}"
        if self.default_devices:
            known = [d for d in known if d.name in self.default_devices]
            count = count if count > 1 else len(known)
            reason = f"option model_devices says {', '.join(self.default_devices)}"
        asked = _asked_device(sub)
        if asked:
            found = next((d for d in known if d.engines[sub.engine] == asked), None)
            place = InstancePlace(asked) if found is None else InstancePlace(asked, found.resource_type, found.name)
            return [place] * count, f"the model's setting device={asked.rpartition(':')[2]}"
        if not known:  # the engine says itself what is wrong, when its model is loaded
            return [InstancePlace(f"{sub.engine.lower()}:{i}") for i in range(count)], f"{sub.engine} finds no device"
        chosen = [known[i % len(known)] for i in range(count)]
        return [InstancePlace(d.engines[sub.engine], d.resource_type, d.name) for d in chosen], reason

    def _complain(self, info: DeployInfo, used: set[str], missing: Mapping[str, None]) -> None:
        # With no node missing, what is not of this graph is of another one that has the same file.
        for one in info.assignments if missing else ():
            if one.node and one.node not in used:
                hint = nearest(one.node, missing)
                info.file.fault("unknown", one.key, f"graph {self.model.name!r} has no node {one.node!r}", hint)
        for name in missing if info.assignments else ():
            text = f"node {name!r} is not listed; where one node is, all have to be"
            info.file.fault("missing", "", text, "add it to a flow_node_list")

    def _fault(self, info: DeployInfo, found: Assignment, what: str, text: str, hint: str) -> None:
        """Note a fault of a list of devices; once, also where several nodes have the list."""
        if (found.devices_key, what) not in self._told:
            self._told.add((found.devices_key, what))
            info.file.fault("device", found.devices_key, text, hint)


def _asked_device(sub: PneModel) -> str:
    """The device of its engine that a model asks for by its setting `device`, such as `npu:1`; "" if it does not."""
    number = sub.settings.get("device", "") if isinstance(sub, GraphModel) else ""
    return f"{sub.engine.lower()}:{number}" if number.isdecimal() else ""


def _sees_one(sub: PneModel) -> bool:
    """Whether a function is to see its own device only."""
    return isinstance(sub, UdfModel) and sub.params.get(VISIBLE) is True


def _why_all_visible(sub: PneModel, places: Sequence[InstancePlace]) -> str:
    """Why a function that is to see its own device only is not held to it; "" for others."""
    if not _sees_one(sub) or all(place.visible >= 0 for place in places):
        return ""
    return "; visible_device_enable does nothing, as no device of a resource file is behind it"


def _serves(sub: PneModel) -> bool:
    """Whether the compiler made the node to batch for another one."""
    return isinstance(sub, UdfModel) and bool(sub.builtin) and f"_{sub.builtin}_" in sub.name
