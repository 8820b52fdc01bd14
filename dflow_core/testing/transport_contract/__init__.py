"""What every transport must do, as pytest classes.

Subclass the classes you want in a test module of your plugin and give them a `transport` fixture:

    class TestBlocks(BlockContract): ...

    @pytest.fixture
    def transport() -> Transport:
        return MyTransport()

`DeathContract` forks processes and kills them; the others stay in one process. `NativeContract` goes through the table
of `dflow/transport.h` and is skipped where there is none. Needs pytest, pytest-timeout and hypothesis.
"""

from dflow_core.testing.transport_contract.blocks import BlockContract
from dflow_core.testing.transport_contract.death import DeathContract
from dflow_core.testing.transport_contract.doorbells import DoorbellContract
from dflow_core.testing.transport_contract.members import MemberContract
from dflow_core.testing.transport_contract.native import NativeContract
from dflow_core.testing.transport_contract.plain import PlainContract
from dflow_core.testing.transport_contract.policies import PolicyContract
from dflow_core.testing.transport_contract.queues import QueueContract

__all__ = [
    "BlockContract",
    "DeathContract",
    "DoorbellContract",
    "MemberContract",
    "NativeContract",
    "PlainContract",
    "PolicyContract",
    "QueueContract",
]
