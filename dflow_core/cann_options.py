"""Options of CANN that mean something else here, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dflow_core.errors import OptionError

OF_CANN: Mapping[str, str] = MappingProxyType({
    "ge.graphRunMode": "dflow runs inference only",
    "ge.exec.deviceId": "devices are chosen by the deploy plan",
    "ge.exec.logicalDeviceClusterDeployMode": "devices are chosen by the deploy plan",
    "ge.externalWeight": "weights always stay in the compiled file",
    "ge.externalWeightDir": "weights always stay in the compiled file",
    "ge.socVersion": "give soc_version= to the GraphProcessPoint, or set plugin.npu.soc_version",
    "ge.exec.precision_mode": "give precision= to the GraphProcessPoint",
    "ge.exec.enableFusion": "messages are never fused",
    "ge.exec.graphExecTimeout": "use fetch_timeout (seconds)",
})
"""Options that would have no effect here, and why."""


def pool_sizes(key: str, value: object) -> object:
    """CANN's list `size[:limit],...` of memory pools as one size; dflow has one pool."""
    try:
        return sum(int(pool.split(":")[0]) for pool in str(value).split(","))
    except ValueError as error:
        raise OptionError(f"option {key!r}: expected size[:limit],..., got {value!r}") from error
