from __future__ import annotations

from collections.abc import Iterator

import pytest

from dflow_core.spi import LinkConfig
from dflow_core.testing.link_contract import LEASE, Place
from dflow_transport_grpc.transport import GrpcLinkTransport


@pytest.fixture
def transport() -> GrpcLinkTransport:
    return GrpcLinkTransport()


@pytest.fixture
def place(transport: GrpcLinkTransport) -> Iterator[Place]:
    accepted: list = []
    listener = transport.listen("127.0.0.1:0", LinkConfig("far", LEASE), accepted.append)
    yield Place(transport, listener, accepted)
    for link in accepted:
        link.close(0.5)
    listener.close()
