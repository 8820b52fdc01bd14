"""Deploy files: which node is to run on which logical devices (config-and-options.md section 4), read and checked.

What a file says by itself is checked here; whether its nodes and devices exist, in `placement`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from dflow_core.deploy.planning.device_ids import parse_device_ids, parse_device_list
from dflow_core.deploy.planning.json_file import Fields, JsonFile, read_json_file


@dataclass(frozen=True, slots=True)
class Invocation:
    """Where a graph or model that a function invokes is to run.

    Args:
        name: What the function calls it.
        devices, spares: As for `Assignment`.
        file: Deploy file for the nodes of an invoked graph; "" for none.
        key: Where it stands in the file.
    """

    name: str
    devices: tuple[str, ...]
    spares: tuple[str, ...]
    file: str
    key: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where one node is to run.

    Args:
        node: Alias or name of the node.
        devices: Logical devices, one instance each.
        spares: More of them, for instances that work when no other is left.
        key: Where the name of the node stands in the file.
        devices_key: Where the devices stand.
        invocations: What the node invokes.
        invoked: Whether it is the place of a function, taken for something that the function invokes.
    """

    node: str
    devices: tuple[str, ...]
    spares: tuple[str, ...]
    key: str
    devices_key: str
    invocations: tuple[Invocation, ...] = ()
    invoked: bool = False


@dataclass(frozen=True, slots=True)
class DeployInfo:
    """A deploy file.

    Args:
        file: The file, with its faults.
        assignments: What it says, in order.
        dynamic: Whether messages go to the instance with the least to do (`dynamic_schedule_enable`).
        keeps_order: Whether instances are numbered in the order in which devices are written, not sorted.
    """

    file: JsonFile
    assignments: tuple[Assignment, ...]
    dynamic: bool = False
    keeps_order: bool = False


def read_deploy_info(path: str) -> DeployInfo:
    """Read a deploy file; what is wrong with it is among the faults of its `file`."""
    file = read_json_file(path)
    if file.faults:
        return DeployInfo(file, ())
    root = file.root
    made: list[Assignment] = []
    if not root.has("deploy_info") and not root.has("batch_deploy_info"):
        root.missing("batch_deploy_info")
    dynamic = root.flag("dynamic_schedule_enable")
    for entry in root.objects("deploy_info", required=False):
        devices = _devices(entry, "logic_device_id", parse_device_ids)
        made.append(
            Assignment(
                entry.text("flow_node_name"), devices, (), entry.key("flow_node_name"), entry.key("logic_device_id")
            )
        )
    for entry in root.objects("batch_deploy_info", required=False):
        devices = _devices(entry, "logic_device_list", parse_device_list)
        spares = _spares(entry, dynamic)
        invocations = tuple(_invocations(entry, dynamic))
        for name, key in entry.texts("flow_node_list"):
            made.append(Assignment(name, devices, spares, key, entry.key("logic_device_list"), invocations))
    _check_twins(file, made)
    return DeployInfo(file, tuple(made), dynamic, root.flag("keep_logic_device_order"))


def _devices(entry: Fields, name: str, parse: Callable[[str], list[str]]) -> tuple[str, ...]:
    text = entry.text(name)
    if not text:
        return ()
    try:
        return tuple(parse(text))
    except ValueError as cause:
        entry.file.fault("devices", entry.key(name), str(cause))
        return ()


def _spares(entry: Fields, dynamic: bool) -> tuple[str, ...]:
    """Devices of spare instances; they are of use only where messages go to who has the least to do."""
    name = "redundant_logic_device_list"
    if not entry.has(name):
        return ()
    spares = _devices(entry, name, parse_device_list)
    if not entry.has("logic_device_list"):
        entry.file.fault("spares", entry.key(name), "spare devices without a logic_device_list")
    return spares if dynamic else ()


def _invocations(entry: Fields, dynamic: bool) -> list[Invocation]:
    made: list[Invocation] = []
    for one in entry.objects("invoke_list", required=False):
        name, file = one.text("invoke_name"), one.text("deploy_info_file", "")
        has_devices = one.has("logic_device_list")
        devices = _devices(one, "logic_device_list", parse_device_list) if has_devices else ()
        if file and has_devices:
            one.file.fault(
                "invoke", one.key("deploy_info_file"), "a deploy file and a logic_device_list for one invocation",
                "a graph has a deploy file, a model has devices",
            )
        if any(name == known.name for known in made):
            one.file.fault("duplicate", one.key("invoke_name"), f"{name!r} is listed twice for these nodes")
        folder = os.path.dirname(os.path.abspath(one.file.path))
        made.append(
            Invocation(
                name, devices, _spares(one, dynamic), os.path.join(folder, file) if file else "",
                one.key("invoke_name"),
            )
        )
    return made


def _check_twins(file: JsonFile, made: list[Assignment]) -> None:
    first: dict[str, Assignment] = {}
    for one in made:
        known = first.setdefault(one.node, one)
        if known is not one and one.node:
            line = file.lines.get(known.key, 0)
            file.fault("duplicate", one.key, f"node {one.node!r} is listed before, on line {line}", "list it once")
