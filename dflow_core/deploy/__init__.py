"""From a compiled graph to running executors on this machine.

Folders: `planning` (what runs where; decides and starts nothing), `supervision` (lives and losses of processes:
`lifecycle`, `recovery` and `restart_policy` without I/O, `supervisor` and its shells around them), `children` (how
executors begin, are spoken to and end), `machines` (graphs over several machines: local deployments that are joined).
Beside them `local` and `local_deployment` tie them together, and `door`
answers who asks from outside.

Names are looked up when they are first used: the template process needs `forkserver` and `child` only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflow_core.deploy.door import Address, addresses, ask_all
    from dflow_core.deploy.local import LocalDeployer
    from dflow_core.deploy.local_deployment import LocalDeployment
    from dflow_core.deploy.machines.daemon import Daemon
    from dflow_core.deploy.machines.joint_deployment import Links, deploy_jointly
    from dflow_core.deploy.machines.part_host import Means
    from dflow_core.deploy.planning.called_instances import with_called_instances
    from dflow_core.deploy.planning.memory import MemoryEstimate, estimate_memory
    from dflow_core.deploy.planning.placing import Placed, own_address, place_nodes
    from dflow_core.deploy.planning.planner import plan_deployment
    from dflow_core.deploy.planning.resources import Resources, machine_resources
    from dflow_core.deploy.supervision.restart_policy import restart_policies

__all__ = [
    "Address",
    "Daemon",
    "Links",
    "LocalDeployer",
    "LocalDeployment",
    "Means",
    "MemoryEstimate",
    "Placed",
    "Resources",
    "addresses",
    "ask_all",
    "deploy_jointly",
    "estimate_memory",
    "machine_resources",
    "own_address",
    "place_nodes",
    "plan_deployment",
    "restart_policies",
    "with_called_instances",
]

_HOMES = {
    "Means": "machines.part_host",
    "deploy_jointly": "machines.joint_deployment",
    "Links": "machines.joint_deployment",
    "Daemon": "machines.daemon",
    "Address": "door",
    "addresses": "door",
    "ask_all": "door",
    "LocalDeployer": "local",
    "LocalDeployment": "local_deployment",
    "MemoryEstimate": "planning.memory",
    "estimate_memory": "planning.memory",
    "Placed": "planning.placing",
    "own_address": "planning.placing",
    "place_nodes": "planning.placing",
    "plan_deployment": "planning.planner",
    "with_called_instances": "planning.called_instances",
    "restart_policies": "supervision.restart_policy",
    "Resources": "planning.resources",
    "machine_resources": "planning.resources",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found
