"""Reads what says where nodes are to run (options, files, engines), and places them; the shell around `placement`."""

from __future__ import annotations

import contextlib
import platform
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dflow_core.deploy.children.environments import THREAD_VARIABLES
from dflow_core.deploy.planning.deploy_info import DeployInfo, read_deploy_info
from dflow_core.deploy.planning.device_ids import parse_device_option
from dflow_core.deploy.planning.placement import Placer
from dflow_core.deploy.planning.resource_file import read_resource_file
from dflow_core.deploy.planning.resources import Resources
from dflow_core.deploy.planning.topology import (
    EngineDevices,
    Topology,
    local_server,
    of_resource_file,
    this_machine,
)
from dflow_core.errors import DflowError, Fault, PlacementError
from dflow_core.model import FlowModel, Machine, NodePlacement
from dflow_core.options import Options
from dflow_core.spi import EngineDevice, EngineEntry

RESOURCE_VARIABLE = "RESOURCE_CONFIG_PATH"
_HOST_TYPES = {"x86_64": "X86", "amd64": "X86", "aarch64": "Aarch", "arm64": "Aarch"}


@dataclass(frozen=True, slots=True)
class Placed:
    """Where everything of a graph runs.

    Args:
        placements: One for each submodel.
        notes: What was decided on the way, one sentence each.
        machines: The machines beside this one that something is placed on.
    """

    placements: tuple[NodePlacement, ...]
    notes: tuple[str, ...] = ()
    machines: tuple[Machine, ...] = ()


def place_nodes(
    model: FlowModel, options: Options, resources: Resources, engines: Mapping[str, EngineEntry],
    environ: Mapping[str, str],
) -> Placed:
    """Decide where every instance of a graph runs; starts nothing.

    Args:
        model: The graph.
        options: Options in force; `deploy_info`, `resource_file`, `logical_devices`, `model_devices` are used.
        resources: What may be used of this machine.
        engines: Every engine.
        environ: Environment; the variable `RESOURCE_CONFIG_PATH` goes before the option `resource_file`.

    Raises:
        PlacementError: with every fault of the files.
    """
    notes: list[str] = []
    own = _engine_devices(model, engines, notes)
    host = host_type()
    topology = _topology(options, resources, own, host, environ)
    shares = {name: entry.shares_process for name, entry in engines.items()}
    wanted = _default_devices(options.model_devices, topology) if own else []  # of use to such engines only
    info: DeployInfo | None = read_deploy_info(options.deploy_info) if options.deploy_info else None
    notes += [
        f"{name}={environ[name]} of the environment goes before the threads of every node"
        for name in THREAD_VARIABLES
        if environ.get(name)
    ]
    placer = Placer(model, topology, own, shares, host, wanted)
    made = placer.place(info) if info is None or not info.file.faults else []
    if info is not None:
        if info.file.faults:
            raise PlacementError(info.file.faults)
        notes.append(f"nodes are placed by {options.deploy_info}, on the logical devices of {topology.source}")
    used = {place.machine for one in made for place in one.places}
    return Placed(tuple(made), tuple(notes), tuple(one for one in topology.machines if one.name in used))


def own_address(path: str, environ: Mapping[str, str]) -> str:
    """Where a daemon of this machine listens, by a resource file; "" where there is no file.

    Args:
        path: The file; "" is the one that the variable `RESOURCE_CONFIG_PATH` names.
        environ: Environment.

    Raises:
        PlacementError: with every fault of the file.
    """
    path = path or environ.get(RESOURCE_VARIABLE, "")
    if not path:
        return ""
    found = read_resource_file(path)
    clusters = () if found.file.faults else found.clusters
    own = [local_server(found, servers, host_type(), local_addresses) for servers in clusters]
    if found.file.faults:
        raise PlacementError(found.file.faults)
    return next((server.listens_at for server in own if server is not None), "")


def host_type() -> str:
    """Type of this machine's CPUs, as resource files call it."""
    machine = platform.machine().lower()
    return _HOST_TYPES.get(machine, machine)


def local_addresses() -> Collection[str]:
    """Network addresses of this machine, as far as its name leads to them."""
    found = {"127.0.0.1", "::1", "localhost"}
    with contextlib.suppress(OSError):  # a name nobody knows
        found |= {str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None)}
    return found


def _engine_devices(model: FlowModel, engines: Mapping[str, EngineEntry], notes: list[str]) -> EngineDevices:
    """Devices of the engines that the graph uses; what an engine cannot tell now, it tells when it loads a model."""
    found: dict[str, Sequence[EngineDevice]] = {}
    for name in dict.fromkeys(sub.engine for sub in model.submodels.values()):
        entry = engines.get(name)
        if entry is None or entry.places is None:
            continue
        try:
            found[name] = tuple(entry.places())
        except (DflowError, OSError, ImportError) as error:
            found[name] = ()
            notes.append(f"devices of engine {name} are not known: {error}")
    return found


def _topology(
    options: Options, resources: Resources, engines: EngineDevices, host: str, environ: Mapping[str, str]
) -> Topology:
    path = environ.get(RESOURCE_VARIABLE) or options.resource_file
    if not path:
        return this_machine(resources.cpus, host, engines, options.logical_devices)
    found = read_resource_file(path)
    topology = of_resource_file(found, host, engines, local_addresses) if not found.file.faults else None
    if topology is None or found.file.faults:
        source = f"variable {RESOURCE_VARIABLE}" if environ.get(RESOURCE_VARIABLE) else "option resource_file"
        raise PlacementError(found.file.faults, hint=f"the file is named by the {source}")
    return topology


def _default_devices(text: str, topology: Topology) -> list[str]:
    """The devices of the option `model_devices`."""
    if not text:
        return []
    try:
        names = parse_device_option(text)
    except ValueError as cause:
        raise PlacementError([Fault("devices", "option model_devices", "", str(cause))]) from cause
    unknown = [name for name in names if name not in topology.devices]
    if unknown:
        hint = f"there are {topology.known()}"
        text = f"there is no logical device {', '.join(unknown)}"
        raise PlacementError([Fault("device", "option model_devices", "", text, hint)])
    return names
