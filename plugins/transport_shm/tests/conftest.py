from __future__ import annotations

import pytest

from dflow_core.spi.transport import Transport
from dflow_transport_shm import ShmTransport


@pytest.fixture
def transport() -> Transport:
    return ShmTransport()
