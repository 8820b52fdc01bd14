"""Acme's functions, each under the harness, and in a graph."""

from __future__ import annotations

import numpy as np
import pytest

from acme_udfs import moving_average, plugin, threshold
from dflow_core import builtin
from dflow_core.errors import OptionError
from dflow_core.graph import FlowData, FlowGraph
from dflow_core.message import Flag
from dflow_core.plugins import load_plugins
from dflow_core.session import DFlowSession
from dflow_core.testing.func_harness import FuncHarness

ENTRIES = {entry.name: entry for entry in plugin.dflow_register_udfs()}


def average(window: object) -> FuncHarness:
    return FuncHarness.of(ENTRIES["acme.moving_average"], {"window": window})


def test_average_is_over_the_last_messages() -> None:
    h = average(2)
    for value in (1, 3, 5):
        h.feed(np.array([value, 10 * value]))
    assert [s.array.tolist() for s in h.sent] == [[1, 10], [2, 20], [4, 40]]
    h.check()


def test_average_starts_again_after_eos() -> None:
    h = average(3)
    h.feed(np.array([1.0]))
    h.feed(np.array([3.0]), flags=Flag.EOS)
    h.feed(np.array([10.0, 20.0]))
    h.feed(None, flags=Flag.EOS)
    assert [s.kind for s in h.sent] == ["data", "data", "data", "null"]
    assert h.sent[2].array.tolist() == [10, 20]
    h.check()


def test_average_refuses_another_shape_and_goes_on() -> None:
    h = average(3)
    h.feed(np.zeros(2))
    (error,) = h.feed(np.zeros(3))
    assert "[3]" in error.error.message and "[2]" in error.error.message
    assert h.feed(np.ones(2))[0].array.tolist() == [0.5, 0.5]
    h.check()


@pytest.mark.parametrize("value", ["text", np.array(["a"]), np.zeros(0), {"a": 1}])
def test_average_refuses_what_is_no_tensor_of_numbers(value: object) -> None:
    (error,) = average(3).feed(value)
    assert "expected a tensor of numbers" in error.error.message


@pytest.mark.parametrize("window", [0, 2.5, None])
def test_impossible_window_is_refused(window: object) -> None:
    with pytest.raises(OptionError, match="window"):
        average(window)


def test_threshold_takes_one_branch_and_skips_the_other() -> None:
    h = FuncHarness.of(ENTRIES["acme.threshold"], {"limit": 2}, outputs=2)
    h.feed(np.array([1, 5]))
    h.feed(np.array([1, 2]))
    h.feed(None)
    assert sorted((s.info.trans_id, s.output, s.kind) for s in h.sent) == [
        (1, 0, "data"), (1, 1, "skip"), (2, 0, "skip"), (2, 1, "data"), (3, 0, "skip"), (3, 1, "null"),
    ]
    h.check()


def test_threshold_without_a_number_is_refused() -> None:
    with pytest.raises(OptionError, match="limit"):
        FuncHarness.of(ENTRIES["acme.threshold"], {"limit": "high"}, outputs=2)


def test_functions_make_nodes() -> None:
    above, below = threshold(moving_average(FlowData("x"), window=3, name="smooth"), limit=1.0, name="split")
    graph = FlowGraph([above, below])
    assert graph.faults() == ()
    assert [node.name for node in graph.nodes] == ["smooth", "split"]
    assert "acme.moving_average" in graph.to_mermaid()


def test_graph_runs_in_this_thread() -> None:
    """Needs the engine for functions, dflow-pne-udf."""
    udf = pytest.importorskip("dflow_pne_udf.plugin")
    registry = load_plugins(builtin=(builtin, plugin, udf), allow=())
    graph = FlowGraph([moving_average(FlowData("x"), window=2)])
    with DFlowSession(registry=registry) as session:
        running = session.run(graph, mode="inline")
        means = []
        for value in (1.0, 3.0, 5.0):
            (outcome,) = running.client.call({0: np.array([value])}, timeout=10)
            assert outcome.error is None
            (msg,) = outcome.messages
            assert msg is not None
            means.append(np.asarray(msg.get_tensor()).item())
        assert means == [1.0, 2.0, 4.0]
