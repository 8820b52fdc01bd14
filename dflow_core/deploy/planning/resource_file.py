"""Resource files: servers and their devices (config-and-options.md section 5), read and checked.

Everything the format has is read and checked, also what one machine has no use for, so that a file that is right here
is right there. The keys that nobody reads upstream (`inter_item_memory_access_mode`, `device_list`) are not read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dflow_core.deploy.planning.json_file import Fields, JsonFile, read_json_file
from dflow_core.options import nearest

RESOURCE_TYPES = ("X86", "Aarch", "Ascend")
_PROTOCOLS = ("RDMA", "TCP")
_PORTS = re.compile(r"(\d+)~(\d+)")
_DEFAULT_PORTS = (16666, 32767)


@dataclass(frozen=True, slots=True)
class Item:
    """A device of a server.

    Args:
        item_id: Number the driver knows it by.
        device_id: Number of the hardware.
        address: Its network address.
    """

    item_id: int
    device_id: int
    address: str


@dataclass(frozen=True, slots=True)
class Server:
    """A machine.

    Args:
        node_id: Its number in the file.
        node_type: Its type, as `Kind.name`.
        address, port: Where its daemon listens.
        is_local: Whether the file says that it is this machine.
        items: Its devices, in order.
        ports: First and last port for data.
        auth_library: Library that checks who connects; "" for none.
        work_path: Folder for what is deployed; "" for the default.
        memory: Gigabytes, as a hint; 0 where the file does not say.
        key: Where it stands in the file.
    """

    node_id: int
    node_type: str
    address: str
    port: int
    is_local: bool
    items: tuple[Item, ...]
    ports: tuple[int, int] = _DEFAULT_PORTS
    auth_library: str = ""
    work_path: str = ""
    memory: int = 0
    key: str = ""

    @property
    def listens_at(self) -> str:
        """Host and port of its daemon, an IPv6 address in brackets."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of servers (`node_def`) or of devices (`item_def`).

    Args:
        name: Its name.
        resource_type: `X86`, `Aarch` or `Ascend`; "" where the file does not say.
        items: Types of the devices in such a server.
        facts: Everything else the file says, as text.
        links: Numbers of devices that are joined directly.
    """

    name: str
    resource_type: str
    items: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    links: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Plane:
    """Devices that can reach each other."""

    number: int
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ResourceFile:
    """A resource file.

    Args:
        file: The file, with its faults.
        clusters: Servers of each cluster, sorted by `node_id`.
        servers, devices: Types of servers and of devices, by name.
        protocol: How servers are joined, such as `RDMA:200Gb`.
        planes: Which devices can reach each other.
    """

    file: JsonFile
    clusters: tuple[tuple[Server, ...], ...]
    servers: Mapping[str, Kind]
    devices: Mapping[str, Kind]
    protocol: str = "RDMA"
    planes: tuple[Plane, ...] = ()


def read_resource_file(path: str) -> ResourceFile:
    """Read a resource file; what is wrong with it is among the faults of its `file`."""
    file = read_json_file(path)
    if file.faults:
        return ResourceFile(file, (), {}, {})
    root = file.root
    servers = {kind.name: kind for kind in map(_server_kind, root.objects("node_def"))}
    devices = {kind.name: kind for kind in map(_device_kind, root.objects("item_def"))}
    clusters, planes, protocol = [], [], "RDMA"
    for cluster in root.objects("cluster"):
        found = sorted(map(_server, cluster.objects("cluster_nodes")), key=lambda server: server.node_id)
        clusters.append(tuple(found))
        topology = cluster.child("nodes_topology")
        if topology is not None:
            protocol = _protocol(topology)
            topology.text("type", "star")
            planes += [Plane(one.number("plane_id"), _numbers(one, "devices")) for one in topology.objects("topos")]
    made = ResourceFile(file, tuple(clusters), servers, devices, protocol, tuple(planes))
    _check_types(made)
    return made


def _server(entry: Fields) -> Server:
    panel = entry.child("data_panel")
    return Server(
        entry.number("node_id"), entry.text("node_type"), entry.text("ipaddr"), entry.number("port"),
        entry.flag("is_local"),
        tuple(
            Item(one.number("item_id"), one.number("device_id"), one.text("ipaddr", ""))
            for one in entry.objects("item_list")
        ),
        _ports(panel) if panel is not None else _DEFAULT_PORTS, entry.text("auth_lib_path", ""),
        entry.text("deploy_res_path", ""), entry.number("memory", 0), entry.path,
    )


def _ports(panel: Fields) -> tuple[int, int]:
    """Ports for data: one text `first~last`, or a list with one such text, as the documents have it."""
    given = panel.content.get("avail_ports")
    if given is None:
        return _DEFAULT_PORTS
    text = given[0] if isinstance(given, list) and len(given) == 1 else given
    found = _PORTS.fullmatch(re.sub(r"\s", "", text)) if isinstance(text, str) else None
    if found is None or not 1024 <= int(found[1]) <= int(found[2]) <= 65535:
        message = f"expected ports from 1024 to 65535 as 'first~last', got {given!r}"
        panel.file.fault("ports", panel.key("avail_ports"), message)
        return _DEFAULT_PORTS
    return int(found[1]), int(found[2])


def _server_kind(entry: Fields) -> Kind:
    names = [one.text("item_type") for one in entry.objects("item", required=False)]
    own = entry.text("item_type", "")
    links: list[tuple[int, int]] = []
    facts = {name: entry.text(name, "") for name in ("support_links", "h2d_bw")}
    for one in entry.objects("item_topology", required=False):
        facts["links_mode"] = one.text("links_mode")
        links += _pairs(one, "links")
    items = tuple(dict.fromkeys(filter(None, [own, *names])))
    return Kind(entry.text("node_type"), _resource_type(entry), items, facts, tuple(links))


def _device_kind(entry: Fields) -> Kind:
    facts = {name: entry.text(name, "") for name in ("memory", "aic_type")}
    return Kind(entry.text("item_type"), _resource_type(entry), (), facts)


def _resource_type(entry: Fields) -> str:
    found = entry.text("resource_type", "")
    if found and found not in RESOURCE_TYPES:
        message = f"expected {', '.join(RESOURCE_TYPES)}, got {found!r}"
        entry.file.fault("resource-type", entry.key("resource_type"), message, nearest(found, RESOURCE_TYPES))
    return found


def _protocol(topology: Fields) -> str:
    found = topology.text("protocol", "RDMA")
    if found.partition(":")[0] not in _PROTOCOLS:
        message = f"expected {' or '.join(_PROTOCOLS)}, alone or before a colon, got {found!r}"
        topology.file.fault("protocol", topology.key("protocol"), message)
    return found


def _numbers(entry: Fields, name: str) -> tuple[int, ...]:
    given = entry.content.get(name)
    if not isinstance(given, list) or any(type(item) is not int for item in given):
        if entry.has(name):
            entry.file.fault("type", entry.key(name), "expected a list of whole numbers")
        else:
            entry.missing(name)
        return ()
    return tuple(given)


def _pairs(entry: Fields, name: str) -> Sequence[tuple[int, int]]:
    given = entry.content.get(name)
    pairs = given if isinstance(given, list) else []
    good = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair)]
    if not isinstance(given, list) or len(good) < len(pairs):
        entry.file.fault("type", entry.key(name), "expected a list of pairs of whole numbers, such as [[0, 1]]")
    return [(pair[0], pair[1]) for pair in good]


def _check_types(made: ResourceFile) -> None:
    """Types that are named must be there."""
    for servers in made.clusters:
        seen: dict[int, Server] = {}
        for server in servers:
            if seen.setdefault(server.node_id, server) is not server:
                made.file.fault("duplicate", f"{server.key}.node_id", f"two servers have node_id {server.node_id}")
            if server.node_type and server.node_type not in made.servers:
                hint = nearest(server.node_type, made.servers)
                message = f"node_def has no type {server.node_type!r}"
                made.file.fault("unknown", f"{server.key}.node_type", message, hint)
    for number, kind in enumerate(made.servers.values()):
        for name in kind.items:
            if name not in made.devices:
                hint = nearest(name, made.devices)
                made.file.fault("unknown", f"node_def[{number}]", f"item_def has no type {name!r}", hint)
