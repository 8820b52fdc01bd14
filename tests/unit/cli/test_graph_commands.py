"""`dflow check`, `plan`, `compile` and `draw`, over a session that is a fake."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from dflow_core.compiler import BuildReport, NodeReport
from dflow_core.errors import CompileError, Fault
from dflow_core.graph import FlowData, FlowGraph, FuncProcessPoint, save_graph
from dflow_core.model import (
    DeployPlan,
    Endpoint,
    FlowModel,
    GraphModel,
    InstancePlace,
    InstancePlan,
    ModelEndpoints,
    ModelRelation,
    NodePlacement,
    ProcessPlan,
    QueuePlan,
    ThreadShare,
    read_om,
)
from dflow_core.plugins import PluginRegistry
from dflow_core.types import DataType, TensorSpec

KNOWN = TensorSpec(DataType.FLOAT, (1, 1000))
FREE = TensorSpec(DataType.FLOAT, (-1, 10))


def flow_model() -> FlowModel:
    net = GraphModel(name="net", engine="CPU", inputs=(KNOWN,), outputs=(FREE,), framework="onnx", source=b"x")
    relation = ModelRelation(
        endpoints=(Endpoint("g:x"), Endpoint("net:0")),
        submodels={"net": ModelEndpoints("net", ("g:x",), ("net:0",))},
        root=ModelEndpoints("g", ("g:x",), ("net:0",)),
        input_names=("x",),
        output_names=("net",),
    )
    return FlowModel("g", {"net": net}, relation)


def deploy_plan() -> DeployPlan:
    instance = InstancePlan("net", 0, 1, "CPU@cpu:0", "cpu:0", 2, ("g:x->net:0",), ((),))
    return DeployPlan(
        graph="g",
        transport="shm",
        processes=(ProcessPlan("CPU@cpu:0", "CPU", "", (instance,)),),
        queues=(QueuePlan("g:x->net:0", 16), QueuePlan("net:0->", 4, "drop_oldest")),
        feeds=(),
        fetches=("net:0->",),
        cpus=2,
        notes=("2 CPUs shared out over 1 instance",),
        placements=(NodePlacement("net", (InstancePlace("npu:1", "Ascend", "0:0:1:0"),), "", "line 7 of deploy.json"),),
        budget=(ThreadShare("net", 1, 2, "as the node asks"),),
    )


@dataclass
class FakeSession:
    """Does what a session does, and keeps how it was asked."""

    faults: tuple[Fault, ...] = ()
    error: Exception | None = None
    asked: dict[str, object] = field(default_factory=dict)
    registry: PluginRegistry = field(default_factory=PluginRegistry)

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(self, *exc: object) -> None:
        self.asked["closed"] = True

    def check(self, graph: FlowGraph) -> tuple[Fault, ...]:
        return self.faults

    def build(self, graph: FlowGraph, *, cache: bool = True) -> tuple[FlowModel, BuildReport]:
        self.asked["cache"] = cache
        if self.error:
            raise self.error
        nodes = (NodeReport("net", "CPU", "hit" if cache else "off", 0.002, ("runs on openvino",)),)
        return flow_model(), BuildReport(nodes, ("1 node pruned",), 0.01)

    def compile(self, graph: FlowGraph, *, cache: bool = True) -> FlowModel:
        return self.build(graph, cache=cache)[0]

    def plan(self, model: FlowModel) -> DeployPlan:
        return deploy_plan()


@pytest.fixture
def session(cli) -> FakeSession:
    made = FakeSession()

    def open_session(options: Mapping[str, str]) -> FakeSession:
        made.asked["options"] = dict(options)
        return made

    cli.services = replace(cli.services, session=open_session)
    return made


@pytest.fixture
def target(tmp_path: Path) -> str:
    point = FuncProcessPoint(builtin="f", name="f")
    save_graph(FlowGraph([point.fnode(1, 1)(FlowData("x"))], name="g"), tmp_path / "g.graph")
    return str(tmp_path / "g.graph")


def test_a_good_graph_has_no_faults(cli, session, target):
    result = cli("check", target, "-O", "queue_depth=3")
    assert result.code == 0 and "g: 1 node, no faults" in result.out
    assert session.asked == {"options": {"queue_depth": "3"}, "closed": True}


def test_all_faults_are_told_at_once(cli, session, target):
    session.faults = (Fault("cycle", "a", "", "goes in a circle"), Fault("arity", "b", "input 1", "expected 2", "add"))
    result = cli("check", target)
    assert result.code == 1
    assert "1. [cycle] a: goes in a circle" in result.out
    assert "2. [arity] b input 1: expected 2 (add)" in result.out and "2 faults" in result.out
    found = cli("check", target, "--json").json
    assert [fault["kind"] for fault in found["faults"]] == ["cycle", "arity"]


def test_the_plan_tells_processes_queues_memory_and_the_cache(cli, session, target):
    result = cli("plan", target)
    assert result.code == 0
    for told in (
        "g: 1 process on 2 CPUs, queues by shm",
        "1 of 1 from the cache",
        "net 1 of 1",
        "0:0:1:0         npu:1   Ascend               line 7 of deploy.json",
        "threads: 2 on 2 CPUs",
        "as the node asks",
        "CPU@cpu:0  started again up to 3 times in 60 s, pauses of 0.05 to 1 s",
        "drop_oldest",
        "memory: models 1 B, full queues 0 B",
        "- 1 node pruned",
        "- net: runs on openvino",
        "- 2 CPUs shared out over 1 instance",
    ):
        assert told in result.out


def test_the_plan_as_a_document(cli, session, target):
    found = cli("plan", target, "--json", "--no-cache").json
    assert session.asked["cache"] is False
    assert found["processes"][0]["instances"][0]["threads"] == 2
    assert [queue["depth"] for queue in found["queues"]] == [16, 4]
    assert found["memory"]["models"] == 1
    assert found["restarts"] == {
        "CPU@cpu:0": {"when_lost": "restart", "restarts": 3, "window": 60.0, "delay": 0.05, "longest_delay": 1.0}
    }
    assert found["placements"][0]["places"] == [
        {
            "device": "npu:1", "resource_type": "Ascend", "logical_device": "0:0:1:0", "spare": False, "visible": -1,
            "machine": "",
        }
    ]
    assert found["budget"] == [
        {"node": "net", "instances": 1, "threads": 2, "reason": "as the node asks", "calls": 1, "machine": ""}
    ]


def test_a_deploy_template_is_written_instead(cli, session, target, tmp_path):
    path = tmp_path / "deploy.json"
    result = cli("plan", target, "--deploy-template", str(path))
    assert result.code == 0 and f"wrote {path}" in result.out
    assert json.loads(path.read_text())["batch_deploy_info"][0]["flow_node_list"] == ["f"]
    assert "cache" not in session.asked, "nothing is compiled"


def test_compiling_writes_a_file(cli, session, target, tmp_path):
    out = tmp_path / "g.om"
    result = cli("compile", target, "-o", str(out))
    assert result.code == 0 and "1 submodel," in result.out
    assert list(read_om(out).submodels) == ["net"]
    assert cli("compile", target, "-o", str(out), "--json").json["size"] == out.stat().st_size


def test_what_cannot_be_compiled_leaves_no_file(cli, session, target, tmp_path):
    session.error = CompileError("no such operator", node="net")
    result = cli("compile", target, "-o", str(tmp_path / "g.om"))
    assert result.code == 1 and "node 'net': no such operator" in result.err
    assert not (tmp_path / "g.om").exists() and session.asked["closed"]


@pytest.mark.parametrize(("kind", "told"), [("text", "f"), ("mermaid", "flowchart"), ("dot", "digraph")])
def test_a_graph_is_drawn(cli, target, tmp_path, kind, told):
    assert told in cli("draw", target, "--format", kind).out
    assert cli("draw", target, "-f", kind, "--json").json["format"] == kind
    assert cli("draw", target, "-f", kind, "-o", str(tmp_path / "out")).code == 0
    assert told in (tmp_path / "out").read_text()


def test_a_target_that_is_not_there_gives_exit_code_2(cli, session):
    for command in (["check"], ["plan"], ["draw"], ["run"], ["compile", "-o", "x.om"]):
        result = cli(command[0], "missing.graph", *command[1:])
        assert result.code == 2 and "missing.graph: no such file" in result.err
