"""The engine NUMEXPR: the contract of engines, and what is its own."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from acme_numexpr import ExprPoint, plugin
from acme_numexpr.engine import ExprEngine
from acme_numexpr.points import from_bytes, to_bytes
from dflow_core import builtin
from dflow_core.errors import CompileError, UsageError
from dflow_core.graph import FlowData, FlowGraph, FlowOutput, deserialize_graph, serialize_graph
from dflow_core.plugins import load_plugins
from dflow_core.session import DFlowSession
from dflow_core.spi import CompileContext, EngineEntry
from dflow_core.testing.engine_contract import EngineCase, EngineContract
from dflow_core.types import DataType

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([10, 20, 30], np.float32)
CASES = {
    "broadcast": EngineCase(ExprPoint("a*b+1", ["a", "b"]), [A, B], [A * B + 1]),
    "double": EngineCase(ExprPoint("sqrt(x)", ["x"], "float64"), [np.array([4.0, 9.0])], [np.array([2.0, 3.0])]),
    "comparison": EngineCase(ExprPoint("a > b", ["a", "b"]), [A, B], [A > B]),
    "mixed": EngineCase(
        ExprPoint("where(mask, n, 0)", {"mask": "bool", "n": "int64"}),
        [np.array([True, False]), np.array([7, 8])], [np.array([7, 0])],
    ),
    "reduction": EngineCase(ExprPoint("sum(a)", ["a"]), [A], [A.sum()]),
}


class TestEngine(EngineContract):
    """Contract of engines."""

    @pytest.fixture
    def entry(self) -> EngineEntry:
        return plugin.dflow_register_engines()[0]

    @pytest.fixture(params=list(CASES))
    def case(self, request: pytest.FixtureRequest) -> EngineCase:
        return CASES[request.param]


@pytest.mark.parametrize("expression", ["a*", "a*c", "", "__import__('os')", "b", "a.b", "a if b else 1"])
def test_no_expression_is_a_compile_error_that_names_the_node(expression: str) -> None:
    point = ExprPoint(expression, ["a", "b"])
    with pytest.raises(CompileError, match="is no expression over a, b") as caught:
        ExprEngine().compile(point, CompileContext("node", {}, 2, 1))
    assert caught.value.node == "node"


def test_node_must_have_as_many_ports_as_the_expression() -> None:
    with pytest.raises(CompileError, match="2 inputs and 1 output, the node has 1 and 1"):
        ExprEngine().compile(ExprPoint("a+b", ["a", "b"]), CompileContext("node", {}, 1, 1))


def test_types_are_known_before_compiling() -> None:
    described = ExprEngine().describe(ExprPoint("a > 1", ["a"]))
    assert described is not None
    assert [spec.dtype for spec in (*described.inputs, *described.outputs)] == [DataType.FLOAT, DataType.BOOL]


@pytest.mark.parametrize("inputs", [[], ["1a"], ["a", "a"], {"a": "float16"}])
def test_impossible_inputs_are_refused_at_once(inputs: list[str] | dict[str, str]) -> None:
    with pytest.raises(UsageError):
        ExprPoint("a", inputs)


def test_point_survives_bytes() -> None:
    point = ExprPoint("a+b", {"a": "int32", "b": "bool"}, name="add")
    again = from_bytes(to_bytes(point))
    assert (again.expression, again.inputs, again.dtypes, again.name) == ("a+b", ("a", "b"), ("int32", "bool"), "add")


def graph() -> FlowGraph:
    output = ExprPoint("a*b+1", ["a", "b"], name="scale").fnode(2, 1)(FlowData("a"), FlowData("b"))
    assert isinstance(output, FlowOutput)
    return FlowGraph([output], name="acme")


def test_graph_with_the_point_survives_bytes() -> None:
    registry = load_plugins(builtin=(builtin, plugin), allow=())
    data = serialize_graph(graph(), registry.point_kinds)
    again = deserialize_graph(data, registry.point_kinds)
    assert [point.caption() for node in again.nodes for point in node.points] == ["a*b+1"]
    assert serialize_graph(again, registry.point_kinds) == data


def test_graph_runs_in_this_thread() -> None:
    registry = load_plugins(builtin=(builtin, plugin), allow=())
    with DFlowSession(registry=registry) as session:
        running = session.run(graph(), mode="inline")
        (outcome,) = running.client.call({0: A, 1: B}, timeout=10)
        assert outcome.error is None
        (msg,) = outcome.messages
        assert msg is not None
        assert np.array_equal(np.asarray(msg.get_tensor()), A * B + 1)


def test_registering_does_not_import_numexpr() -> None:
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; from acme_numexpr import plugin; plugin.dflow_register_engines(); "
        "plugin.dflow_register_process_points(); print('numexpr' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert result.stdout.strip() == "False"
