"""Logical devices: what the names in deploy files stand for, on this machine or in a resource file. Pure functions.

Without a resource file this machine is server 0. It has a logical device for each CPU that may be used (option
`logical_devices` says otherwise), or for each device of an engine if there are more of those; device i of every engine
is behind logical device i. `0:0:-1:0` is the machine's CPUs as a whole. Nodes of engines that run on CPUs may be put
on any logical device: they run on the CPUs of its server. The servers of a resource file beside this machine are called
`server<position>`, as they are numbered in `0:<position>:<device>:0`; those of further clusters
`server<cluster>.<position>`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dflow_core.deploy.planning.resource_file import ResourceFile, Server
from dflow_core.model import Machine
from dflow_core.spi import EngineDevice

CPU_TYPES = ("X86", "Aarch")
"""Resource types of logical devices that are CPUs."""
EngineDevices = Mapping[str, Sequence[EngineDevice]]
"""The devices that engines have of their own, by engine id."""


@dataclass(frozen=True, slots=True)
class LogicalDevice:
    """Something a deploy file can name.

    Args:
        name: `cluster:server:device:die`.
        number: Its number on its server; -1 for the server's own CPUs.
        resource_type: `Ascend` for NPUs, `X86` or `Aarch` for CPUs.
        host_type: Type of the CPUs of its server.
        engines: What it is to engines that have devices, such as `npu:0` for the engine `NPU`.
        machine: Name of the machine it is on; "" for this one.
        hardware: Number of the hardware, from a resource file; -1 without one.
    """

    name: str
    number: int
    resource_type: str
    host_type: str
    engines: Mapping[str, str] = field(default_factory=dict)
    machine: str = ""
    hardware: int = -1


@dataclass(frozen=True, slots=True)
class Topology:
    """Every logical device.

    Args:
        devices: By name.
        source: Where they come from, in words.
        machines: The machines beside this one.
    """

    devices: Mapping[str, LogicalDevice]
    source: str
    machines: tuple[Machine, ...] = ()

    def known(self) -> str:
        """The names there are, shortened where they follow each other."""
        found = [self._known(""), *(f"{self._known(one.name)} on {one.name}" for one in self.machines)]
        return "; ".join(found)

    def _known(self, machine: str) -> str:
        own = [device for device in self.devices.values() if device.machine == machine]
        names = [device.name for device in own if device.number >= 0]
        hosts = [device.name for device in own if device.number < 0]
        shown = f"{names[0]} to {names[-1]}" if len(names) > 2 else " and ".join(names)
        return ", ".join(filter(None, [shown, *(f"{name} for the CPUs of the machine" for name in hosts)]))


def this_machine(cpus: int, host_type: str, engines: EngineDevices, count: int = 0) -> Topology:
    """The logical devices of this machine, without a resource file.

    Args:
        cpus: CPUs that may be used.
        host_type: `X86` or `Aarch`.
        engines: Devices of the engines that are in use.
        count: Logical devices that stand for the CPUs; 0 is one for each.
    """
    number = max([count or cpus, *map(len, engines.values())])
    devices = {"0:0:-1:0": LogicalDevice("0:0:-1:0", -1, host_type, host_type)}
    for i in range(number):
        own = {engine: found[i].device for engine, found in engines.items() if i < len(found)}
        types = [found[i].resource_type for found in engines.values() if i < len(found)]
        name = f"0:0:{i}:0"
        devices[name] = LogicalDevice(name, i, types[0] if types else host_type, host_type, own)
    return Topology(devices, "this machine")


def of_resource_file(
    resources: ResourceFile, host_type: str, engines: EngineDevices, addresses: Callable[[], Collection[str]]
) -> Topology:
    """The logical devices of a resource file; faults go to the file's own.

    Args:
        resources: The file, without faults.
        host_type: Type of this machine's CPUs.
        engines: Devices of the engines that are in use.
        addresses: Gives the network addresses of this machine.
    """
    devices: dict[str, LogicalDevice] = {}
    machines: list[Machine] = []
    for cluster, servers in enumerate(resources.clusters):
        local = local_server(resources, servers, host_type, addresses)
        for position, server in enumerate(servers):
            place = f"{cluster}:{position}"
            machine = "" if server is local else f"server{cluster}.{position}" if cluster else f"server{position}"
            found = list(_devices(resources, server, place, host_type, engines, machine))
            devices.update((device.name, device) for device in found)
            if machine:
                cpus = sum(device.number >= 0 and device.resource_type in CPU_TYPES for device in found)
                machines.append(Machine(machine, server.listens_at, cpus, found[0].host_type))
    return Topology(devices, resources.file.path, tuple(machines))


def local_server(
    resources: ResourceFile, servers: Sequence[Server], host_type: str, addresses: Callable[[], Collection[str]]
) -> Server | None:
    """The server that is this machine: the one that says so, the only one, or the one with an address of ours."""
    marked = [server for server in servers if server.is_local]
    if len(marked) > 1:
        resources.file.fault("local", f"{marked[1].key}.is_local", "two servers are said to be this machine")
    if not marked and len(servers) > 1:
        own = addresses()
        marked = [server for server in servers if server.address in own]
        if not marked:
            text = "no server is this machine: none has is_local, and none has one of its addresses"
            resources.file.fault("local", "cluster", text, "set is_local of one of them to true")
    found = marked[0] if marked else servers[0] if len(servers) == 1 else None
    kind = resources.servers.get(found.node_type) if found is not None else None
    if found is not None and kind is not None and kind.resource_type not in ("", "Ascend", host_type):
        text = f"this machine is {host_type}, node_def says {kind.resource_type}"
        resources.file.fault("resource-type", f"{found.key}.node_type", text)
    return found


def _devices(
    resources: ResourceFile, server: Server, place: str, host_type: str, engines: EngineDevices, machine: str
) -> Iterable[LogicalDevice]:
    kind = resources.servers[server.node_type]
    own_type = kind.resource_type or host_type
    types = [resources.devices[name].resource_type or "Ascend" for name in kind.items]
    item_type = types[0] if types else "Ascend"
    yield LogicalDevice(f"{place}:-1:0", -1, own_type, own_type, machine=machine)
    for position, item in enumerate(server.items):
        if machine:  # what is there is known from the file alone
            found = {} if item_type in CPU_TYPES else {name: f"{name.lower()}:{item.device_id}" for name in engines}
        else:
            found = {
                engine: device.device
                for engine, devices in engines.items()
                for device in devices
                if device.resource_type == item_type and device.device.rpartition(":")[2] == str(item.device_id)
            }
        yield LogicalDevice(
            f"{place}:{position}:0", position, item_type, own_type, found, machine, item.device_id
        )
