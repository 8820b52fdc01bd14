"""The shared-memory transport."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from dflow_core.errors import UsageError
from dflow_core.spi.transport import GroupConfig, GroupHandle, Transport
from dflow_transport_shm import bindings as native
from dflow_transport_shm.group import SCHEME, TOKEN, ShmGroup
from dflow_transport_shm.limits import default_memory_limit


class ShmTransport(Transport):
    """Groups in anonymous shared memory: nothing has a name, nothing is left when the processes are gone."""

    scheme = SCHEME

    def create_group(self, config: GroupConfig) -> ShmGroup:
        group = secrets.randbits(64)
        limit = config.memory_limit or default_memory_limit()
        tables = (config.max_blocks, config.max_members, config.max_queues)
        return ShmGroup(native.create(limit, *tables, config.spin_us, group), group)

    def attach(self, handle: GroupHandle, fds: Sequence[int], label: str = "") -> ShmGroup:
        """Join a group; the descriptor is duplicated, so the caller may close its own."""
        if handle.scheme != SCHEME or len(handle.token) != TOKEN.size or len(fds) != 1:
            raise UsageError(f"not the handle of a shared-memory group: {handle.scheme!r} with {len(fds)} descriptors")
        (group,) = TOKEN.unpack(handle.token)
        return ShmGroup(native.attach(fds[0], group, label), group)
