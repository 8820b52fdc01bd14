"""Options of CANN that mean something else here, or nothing."""

from __future__ import annotations

import re
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
    "ge.exec.placement": "set plugin.npu.placement, or engine=CPU",
    "ge.exec.enableFusion": "messages are never fused",
    "ge.exec.graphExecTimeout": "use fetch_timeout (seconds)",
})
"""Options that would have no effect here, and why."""


_POOL = re.compile(r"(\d{1,12})(?::(\d{1,10}))?")
_LEAST, _MOST, _MOST_POOLS, _INT32 = 1024, 256 << 30, 128, 2**31 - 1


def pool_sizes(key: str, value: object) -> int:
    """CANN's list `size[:limit],...` of memory pools as one size; dflow has one pool.

    Raises:
        OptionError: it is no such list, or one of its numbers cannot be.
    """
    pools = [_POOL.fullmatch(pool) for pool in str(value).split(",")]
    sizes = [int(pool[1]) for pool in pools if pool]
    limits = [(int(pool[2] or 0), int(pool[1])) for pool in pools if pool]
    if len(sizes) < len(pools) or len(pools) > _MOST_POOLS:
        raise OptionError(f"option {key!r}: expected 1 to {_MOST_POOLS} times size[:limit], got {value!r}")
    if min(sizes) < _LEAST or sum(sizes) > _MOST:
        raise OptionError(f"option {key!r}: expected pools from {_LEAST} to {_MOST} bytes together, got {value!r}")
    if any(limit and not _LEAST <= limit <= min(size, _INT32) for limit, size in limits):
        raise OptionError(f"option {key!r}: expected limits of 0, or from {_LEAST} to the size, got {value!r}")
    return sum(sizes)
