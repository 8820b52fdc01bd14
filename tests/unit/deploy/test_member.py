from __future__ import annotations

from types import SimpleNamespace

import pytest

from dflow_core.deploy.supervision.lifecycle import GiveUp
from dflow_core.deploy.supervision.member import error_of
from dflow_core.errors import InstanceLostError, NodeError, StartupError
from dflow_core.model.control import Failure

MEMBER = SimpleNamespace(
    only=SimpleNamespace(model="node", index=1), plan=SimpleNamespace(name="p"), log=SimpleNamespace(tail=lambda: "")
)


@pytest.mark.parametrize(
    "failure",
    [
        Failure("ValueError", "bad value 1", "Traceback ...", "node", 1, trans_id=7),
        Failure("NodeError", "scale returned code 9", "", "node", 1, trans_id=7),  # of C++
    ],
)
def test_a_call_that_ends_the_graph_is_an_error_of_its_node(failure: Failure) -> None:
    error = error_of(MEMBER, GiveUp(failure, started=True))
    assert isinstance(error, NodeError)
    assert (error.node, error.instance, error.trans_id, error.error_type) == ("node", 1, 7, failure.kind)
    assert error.reason == failure.message and str(error).count(failure.message) == 1


def test_a_process_that_is_gone_is_a_lost_instance() -> None:
    error = error_of(MEMBER, GiveUp(Failure("lost", "its process was ended by signal 11"), started=True))
    assert isinstance(error, InstanceLostError) and error.node == "node"


def test_a_process_that_did_not_come_up_is_an_error_of_the_start() -> None:
    failure = Failure("ImportError", "no module", "Traceback ...", "node", 1)
    assert isinstance(error_of(MEMBER, GiveUp(failure, started=False)), StartupError)
