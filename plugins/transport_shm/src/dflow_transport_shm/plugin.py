"""Entry point: what this distribution offers to dflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflow_core.spi import TransportEntry, hookimpl

if TYPE_CHECKING:
    from dflow_core.spi.transport import Transport


def _make() -> Transport:
    # Late, so that listing the plugins does not load the compiled module.
    from dflow_transport_shm.transport import ShmTransport

    return ShmTransport()


@hookimpl
def dflow_register_transports() -> list[TransportEntry]:
    """The `shm` transport."""
    return [TransportEntry(scheme="shm", factory=_make)]
