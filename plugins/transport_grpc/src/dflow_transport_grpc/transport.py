"""Makes links over gRPC."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

from dflow_core.spi import Link, LinkConfig, LinkTransport, Listener
from dflow_transport_grpc.forks import without_fork_support

with without_fork_support():
    from dflow_transport_grpc.dialer import Dialer
    from dflow_transport_grpc.listener import GrpcListener


class GrpcLinkTransport(LinkTransport):
    """Links over gRPC: one stream in both directions for each.

    Args:
        version: Version of dflow that both ends must have, up to its minor number; the installed one if not given.
    """

    scheme = "grpc"

    def __init__(self, version: str = "") -> None:
        self._version = version or metadata.version("dflow-core")

    def listen(self, address: str, config: LinkConfig, accept: Callable[[Link], None]) -> Listener:
        return GrpcListener(address, config, self._version, accept)

    def connect(self, address: str, config: LinkConfig, timeout: float) -> Link:
        return Dialer(address, config, self._version).connect(timeout)
