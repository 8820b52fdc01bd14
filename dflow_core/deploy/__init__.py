"""From a compiled graph to running executors on this machine.

Decisions, without I/O: `planner`, `threads`, `memory` (what runs where), `lifecycle` (what follows what in the life of
a process), `recovery` (what is owed when one dies). Shells: `resources` (what this machine has); `supervisor` around
`loop`, `member`, `executor_process`, `status_board`, `answers` and `queue_closer`; `template`, `forkserver` and `child`
(how processes begin); `door` (who asks from outside); `output` and `sinks` (what they print). `local_deployment` ties
them together, `local` makes such deployments; `processes` alone knows how to start and end a process.

Names are looked up when they are first used: the template process needs `forkserver` and `child` only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflow_core.deploy.called_instances import with_called_instances
    from dflow_core.deploy.door import Address, addresses, ask_all
    from dflow_core.deploy.local import LocalDeployer
    from dflow_core.deploy.local_deployment import LocalDeployment
    from dflow_core.deploy.memory import MemoryEstimate, estimate_memory
    from dflow_core.deploy.placing import Placed, place_nodes
    from dflow_core.deploy.planner import plan_deployment
    from dflow_core.deploy.resources import Resources, machine_resources
    from dflow_core.deploy.restart_policy import restart_policies

__all__ = [
    "Address",
    "LocalDeployer",
    "LocalDeployment",
    "MemoryEstimate",
    "Placed",
    "Resources",
    "addresses",
    "ask_all",
    "estimate_memory",
    "machine_resources",
    "place_nodes",
    "plan_deployment",
    "restart_policies",
    "with_called_instances",
]

_HOMES = {
    "Address": "door",
    "addresses": "door",
    "ask_all": "door",
    "LocalDeployer": "local",
    "LocalDeployment": "local_deployment",
    "MemoryEstimate": "memory",
    "estimate_memory": "memory",
    "Placed": "placing",
    "place_nodes": "placing",
    "plan_deployment": "planner",
    "with_called_instances": "called_instances",
    "restart_policies": "restart_policy",
    "Resources": "resources",
    "machine_resources": "resources",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found
