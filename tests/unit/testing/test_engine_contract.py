"""The fake engine keeps the contract of engines; the contract notices engines that do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from dflow_core import builtin
from dflow_core.errors import CompileError
from dflow_core.graph import FlowData, FlowGraph, FlowOutput, deserialize_graph, serialize_graph
from dflow_core.plugins import load_plugins
from dflow_core.spi import EngineEntry
from dflow_core.testing import fakes
from dflow_core.testing.engine_contract import EngineCase, EngineContract
from dflow_core.testing.fakes import FakeEngine, FakePoint, FakeWorker
from dflow_core.types import Array, DataType, TensorSpec

Floats: TypeAlias = npt.NDArray[np.float32]

VECTOR = TensorSpec(DataType.FLOAT, (-1,), "x")
SCALAR = TensorSpec(DataType.DOUBLE, (), "total")


def double(x: Floats) -> Sequence[Array]:
    return [x + x]


def sums(x: Floats, y: Floats) -> Sequence[Array]:
    return [x + y, np.asarray(float(x.sum()))]


X = np.arange(4, dtype=np.float32)
CASES = {
    "one to one": EngineCase(FakePoint(double, [VECTOR], [VECTOR]), [X], [2 * X]),
    "two to two": EngineCase(FakePoint(sums, [VECTOR] * 2, [VECTOR, SCALAR]), [X, X], [2 * X, np.asarray(6.0)]),
}


class TestFakeEngine(EngineContract):
    """Contract of engines."""

    @pytest.fixture
    def entry(self) -> EngineEntry:
        return fakes.dflow_register_engines()[0]

    @pytest.fixture(params=list(CASES))
    def case(self, request: pytest.FixtureRequest) -> EngineCase:
        return CASES[request.param]


class Aliasing(FakeWorker):
    """Gives the same memory at every call."""

    def execute(self, inputs: Sequence[Array], alloc: object) -> Sequence[Array]:
        if not hasattr(self, "_result"):
            self._result = inputs[0].copy()
        self._result[...] = 2 * inputs[0]
        return [self._result]


class Viewing(FakeWorker):
    """Gives back its input."""

    def execute(self, inputs: Sequence[Array], alloc: object) -> Sequence[Array]:
        return [inputs[0]]


def test_contract_notices_results_that_are_overwritten() -> None:
    case = CASES["one to one"]
    assert isinstance(case.point, FakePoint)
    with pytest.raises(AssertionError):
        EngineContract().test_results_are_the_callers_own(Aliasing(case.point), case)


def test_contract_notices_inputs_kept_beyond_the_call() -> None:
    case = EngineCase(FakePoint(lambda x: [x], [VECTOR], [VECTOR]), [X], [X])
    assert isinstance(case.point, FakePoint)
    with pytest.raises(AssertionError):
        EngineContract().test_inputs_are_not_used_after_the_call(Viewing(case.point), case)


def test_fake_point_survives_a_graph_file() -> None:
    registry = load_plugins(builtin=(builtin, fakes), allow=())
    node = FakePoint(lambda x: [x + 1], [VECTOR], [VECTOR], name="inc").fnode(1, 1)
    output = node(FlowData("x"))
    assert isinstance(output, FlowOutput)
    data = serialize_graph(FlowGraph([output]), registry.point_kinds)
    (point,) = deserialize_graph(data, registry.point_kinds).nodes[0].points
    assert isinstance(point, FakePoint)
    assert point.function(X)[0].tolist() == [1, 2, 3, 4]
    assert registry.engine_for(point).id == "FAKE"


def test_fake_engine_fails_when_told_to() -> None:
    case = EngineCase(FakePoint(double, [VECTOR], [VECTOR], compile_error="no such operator"), [X], [X])
    with pytest.raises(CompileError, match="no such operator"):
        FakeEngine().compile(case.point, case.context)
