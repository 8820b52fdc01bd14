"""What the core registers itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflow_core import builtin
from dflow_core.errors import PluginError
from dflow_core.graph import (
    FlowData,
    FlowGraph,
    FlowGraphProcessPoint,
    FlowNode,
    Framework,
    FuncProcessPoint,
    GraphProcessPoint,
    ModelProcessPoint,
    ProcessPoint,
)
from dflow_core.plugins import PluginRegistry, load_plugins, loading
from dflow_core.types import FuncSpec

INSTALLED = {source.report for source in loading._discover()}


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the plugins of this environment; those a test installs are found."""
    discover = loading._discover
    monkeypatch.setattr(loading, "_discover", lambda: [s for s in discover() if s.report not in INSTALLED])


@pytest.fixture
def registry() -> PluginRegistry:
    return load_plugins(builtin=(builtin,), allow=())


def nested() -> FlowGraph:
    node = FlowNode(1, 1, "inner")
    node.add_process_point(FuncProcessPoint(builtin="_BuiltIn_CountBatch"))
    output = node(FlowData("x"))
    assert output is not None and not isinstance(output, tuple)
    return FlowGraph([output], name="nested")


def func() -> FuncProcessPoint:
    specs = (FuncSpec("a", (1,), (0,)), FuncSpec("b", (0, 2), (2, 1), gather=True))
    point = FuncProcessPoint(name="f", package=b"pickled", functions=specs, attrs={"source": "f.py"})
    point.set_init_param("size", 3)
    return point


POINTS: dict[str, ProcessPoint] = {
    "graph": GraphProcessPoint(Framework.ONNX, "model.onnx", {"a": "b"}, name="m", precision="bf16"),
    "func": func(),
    "flow_graph": FlowGraphProcessPoint(nested(), name="n"),
    "model": ModelProcessPoint("graph.om", name="o"),
}


def test_core_plugin_loads(registry: PluginRegistry) -> None:
    report = registry.report[0]
    assert (report.name, report.state, report.distribution, report.error) == ("builtin", "loaded", "dflow-core", "")
    assert "transport inproc" in report.provides


@pytest.mark.parametrize("kind", list(POINTS))
def test_core_point_survives_bytes(registry: PluginRegistry, kind: str) -> None:
    entry, point = registry.point_kind(kind), POINTS[kind]
    assert entry.cls() is type(point)
    again = entry.from_bytes(entry.to_bytes(point))
    assert type(again) is type(point)
    assert entry.to_bytes(again) == entry.to_bytes(point)
    assert (again.name, again.functions) == (point.name, point.functions)


def test_every_core_kind_is_registered(registry: PluginRegistry) -> None:
    assert set(registry.point_kinds) == {point.kind for point in POINTS.values()}
    assert all(issubclass(entry.cls(), ProcessPoint) for entry in registry.point_kinds.values())


def test_in_process_transport_is_there_but_never_the_default(registry: PluginRegistry) -> None:
    entry = registry.transport("inproc")
    assert (entry.cross_process, entry.factory().scheme) == (False, "inproc")
    with pytest.raises(PluginError, match="dflow-transport-shm"):
        registry.local_transport()


def test_local_deployer_is_there(registry: PluginRegistry) -> None:
    assert registry.deployer("local").factory().scheme == "local"


def test_core_cannot_run_models_alone(registry: PluginRegistry, tmp_path: Path) -> None:
    """BC-079: what is missing is said, nothing is taken instead."""
    with pytest.raises(PluginError, match="pip install dflow-pne-cpu"):
        registry.engine_for(POINTS["graph"])
    with pytest.raises(PluginError, match="pip install dflow-pne-udf"):
        registry.engine_for(POINTS["func"])
