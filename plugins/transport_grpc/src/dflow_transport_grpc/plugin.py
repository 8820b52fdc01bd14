"""What this distribution registers with dflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dflow_core.spi import LinkEntry, hookimpl

if TYPE_CHECKING:
    from dflow_core.spi import LinkTransport


@hookimpl
def dflow_register_links() -> Sequence[LinkEntry]:
    """The scheme `grpc`."""
    return [LinkEntry("grpc", _transport)]


def _transport() -> LinkTransport:
    from dflow_transport_grpc.transport import GrpcLinkTransport

    return GrpcLinkTransport()
