"""The shared-memory transport keeps the contract of all transports."""

from __future__ import annotations

from dflow_core.testing.transport_contract import (
    BlockContract,
    DeathContract,
    DoorbellContract,
    MemberContract,
    NativeContract,
    PlainContract,
    PolicyContract,
    QueueContract,
)


class TestBlocks(BlockContract):
    pass


class TestQueues(QueueContract):
    pass


class TestPolicies(PolicyContract):
    pass


class TestPlain(PlainContract):
    pass


class TestNative(NativeContract):
    pass


class TestDoorbells(DoorbellContract):
    pass


class TestMembers(MemberContract):
    pass


class TestDeath(DeathContract):
    pass
