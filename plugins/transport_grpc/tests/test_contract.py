"""The rules of links, over gRPC."""

from __future__ import annotations

import socket

import pytest

from dflow_core.testing.link_contract import LinkContract
from dflow_transport_grpc.transport import GrpcLinkTransport


class TestOverLoopback(LinkContract):
    @pytest.fixture
    def transport(self) -> GrpcLinkTransport:
        return GrpcLinkTransport()


class TestOverIPv6(LinkContract):
    """BC-096: a machine with IPv6 only."""

    @pytest.fixture
    def transport(self) -> GrpcLinkTransport:
        return GrpcLinkTransport()

    @pytest.fixture
    def address(self) -> str:
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("this machine has no IPv6")
        return "[::1]:0"
