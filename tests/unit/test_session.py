from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from types import ModuleType

import pytest

from dflow_core import builtin
from dflow_core.errors import PluginError
from dflow_core.graph import FlowGraph
from dflow_core.model import DeployPlan, FlowModel
from dflow_core.plugins import load_plugins
from dflow_core.session import DFlowSession
from dflow_core.spi import Deployer, DeployerEntry, Deployment, hookimpl


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    logger = logging.getLogger("dflow")
    before = logger.level
    logger.setLevel(logging.NOTSET)
    yield
    logger.setLevel(before)


def test_log_level_is_left_to_the_application_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DFLOW_LOG_LEVEL", raising=False)
    with DFlowSession():
        assert logging.getLogger("dflow").level == logging.NOTSET


@pytest.mark.parametrize("given", [{"log_level": "debug"}, {}])
def test_log_level_is_in_force_by_option_and_by_environment(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFLOW_LOG_LEVEL", "debug" if not given else "error")
    with DFlowSession(given):
        assert logging.getLogger("dflow").level == logging.DEBUG


class BegunDeployer(Deployer):
    """Notes what becomes of it."""

    scheme = "local"

    def __init__(self) -> None:
        self.notes: list[str] = []

    def warm_up(self) -> None:
        self.notes.append("warm")

    def deploy(self, model: FlowModel, plan: DeployPlan, options: Mapping[str, str]) -> Deployment:
        raise AssertionError("these graphs have faults")

    def close(self) -> None:
        self.notes.append("closed")


def test_a_deployer_that_was_begun_before_is_used_and_ended() -> None:
    begun = BegunDeployer()
    with DFlowSession(deployers={"local": begun}) as session, pytest.raises(Exception, match="outputs"):
        session.run(FlowGraph([]))
    assert begun.notes == ["warm", "closed"]


def test_a_plugin_that_gives_the_same_deployer_is_told_although_one_was_begun() -> None:
    other = ModuleType("other")

    @hookimpl
    def dflow_register_deployers() -> list[DeployerEntry]:
        return [DeployerEntry("local", BegunDeployer)]

    setattr(other, "dflow_register_deployers", dflow_register_deployers)  # noqa: B010 - a module made here
    begun = BegunDeployer()
    registry = load_plugins([builtin, other], allow=())
    session = DFlowSession(registry=registry, deployers={"local": begun})
    with session, pytest.raises(PluginError, match="other"):
        session.run(FlowGraph([]))
    assert begun.notes == ["closed"]
