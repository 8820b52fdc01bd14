"""Where instances run, decided from files and devices that are given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dflow_core.deploy import place_nodes, plan_deployment
from dflow_core.deploy.planning.placing import Placed, host_type
from dflow_core.deploy.planning.resources import Resources
from dflow_core.errors import PlacementError, PluginError, UsageError
from dflow_core.graph import FlowData, FlowGraph, FuncProcessPoint, write_deploy_template
from dflow_core.model import DeployPlan, Endpoint, FlowModel, GraphModel, InvokedEndpoints, Route, UdfModel
from dflow_core.options import Options
from dflow_core.spi import EngineDevice, EngineEntry
from dflow_core.types import FuncSpec
from tests.unit.deploy.test_planner import FLOATS, cpu, flow, udf

NPUS = [EngineDevice("npu:0"), EngineDevice("npu:1", text="Ascend910")]
HOST = host_type()


def nothing() -> object:
    raise AssertionError("placing nodes loads no engine")


def engines(npus: Sequence[EngineDevice] | Exception = ()) -> Mapping[str, EngineEntry]:
    def places() -> Sequence[EngineDevice]:
        if isinstance(npus, Exception):
            raise npus
        return npus

    return {
        "UDF": EngineEntry("UDF", lambda point: True, nothing, nothing),
        "CPU": EngineEntry("CPU", lambda point: True, nothing, nothing, shares_process=True),
        "NPU": EngineEntry("NPU", lambda point: True, nothing, nothing, shares_process=True, places=places),
    }


def npu(name: str, **options: object) -> GraphModel:
    return cpu(name, "NPU", **options)


def chain(*models: UdfModel | GraphModel) -> FlowModel:
    wires, source = {}, "g:x"
    for model in models:
        wires[model.name] = [source]
        source = f"{model.name}:0"
    return flow(wires, list(models), [source])


def place(
    model: FlowModel, tmp_path: Path, info: object = None, resources: object = None, cpus: int = 2,
    npus: Sequence[EngineDevice] | Exception = (), **options: object,
) -> Placed:
    given = dict(options)
    for name, content in (("deploy_info", info), ("resource_file", resources)):
        if content is not None:
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps(content, indent=1))
            given[name] = str(path)
    return place_nodes(model, Options(**given), Resources(cpus), engines(npus), {})


def listed(**nodes: str) -> dict[str, object]:
    return {
        "batch_deploy_info": [
            {"flow_node_list": name.split("_and_"), "logic_device_list": text} for name, text in nodes.items()
        ]
    }


def devices(placed: Placed) -> dict[str, list[str]]:
    return {one.node: [place.device for place in one.places] for one in placed.placements}


def plan_of(model: FlowModel, placed: Placed, cpus: int = 2) -> DeployPlan:
    shares = {name: entry.shares_process for name, entry in engines().items()}
    return plan_deployment(model, Resources(cpus), shares, Options(), "shm", placed.placements)


def faults(model: FlowModel, tmp_path: Path, info: object, **more: object) -> list[str]:
    with pytest.raises(PlacementError) as caught:
        place(model, tmp_path, info, **more)
    return [f"{fault.port}: {fault.message} ({fault.hint})" for fault in caught.value.faults]


def test_a_node_on_several_devices_has_that_many_instances_picked_by_transaction(tmp_path):
    model = chain(udf("a"), udf("b", instances=3), udf("c"))
    placed = place(model, tmp_path, listed(a="0:0:0", b="0:0:0~1:0", c="0:0:1"))
    assert devices(placed) == {"a": ["cpu:0"], "b": ["cpu:0", "cpu:1"], "c": ["cpu:1"]}
    b = placed.placements[1]
    assert [place.logical_device for place in b.places] == ["0:0:0:0", "0:0:1:0"]
    assert b.dispatch == "transaction" and f"line 13 of {tmp_path}" in b.reason
    assert "instances=3 of the node does not count" in b.reason
    assert {place.resource_type for place in b.places} == {HOST}
    plan = plan_of(model, placed)
    assert [p.name for p in plan.processes] == ["a", "b#0", "b#1", "c"]
    assert plan.instances[0].outputs == ((Route(("a:0->b:0@0", "a:0->b:0@1")),),)
    assert plan.instances[2].count == 2 and plan.instances[2].device == "cpu:1"
    assert plan.placements == tuple(placed.placements)
    assert any("b: 2 instances, a queue each, picked by transaction" in note for note in plan.notes)


def test_instances_are_numbered_in_the_order_of_devices_or_as_written(tmp_path):
    model = chain(udf("a"))
    info = listed(a="0:0:1,0:0:0,0:0:-1:0")
    assert [p.logical_device for p in place(model, tmp_path, info).placements[0].places] == [
        "0:0:-1:0", "0:0:0:0", "0:0:1:0",
    ]
    placed = place(model, tmp_path, {**info, "keep_logic_device_order": True})
    assert [p.logical_device for p in placed.placements[0].places] == ["0:0:1:0", "0:0:0:0", "0:0:-1:0"]


def test_one_device_listed_twice_is_two_instances(tmp_path):
    model = chain(cpu("a"), cpu("b"))
    plan = plan_of(model, place(model, tmp_path, listed(a="0:0:1,0:0:1", b="0:0:1")))
    assert {p.name: [i.model for i in p.instances] for p in plan.processes} == {
        "CPU@cpu:1": ["a", "b"], "CPU@cpu:1#1": ["a"],
    }


def test_dynamic_scheduling_is_the_least_loaded_with_spares(tmp_path):
    model = chain(udf("a"))
    entry = {"flow_node_list": ["a"], "logic_device_list": "0:0:0", "redundant_logic_device_list": "0:0:1"}
    info = {"batch_deploy_info": [entry], "dynamic_schedule_enable": True}
    placed = place(model, tmp_path, info)
    assert [place.spare for place in placed.placements[0].places] == [False, True]
    assert plan_of(model, placed).feeds == ((Route(("g:x->a:0@0", "g:x->a:0@1"), "load", 1),),)


def test_what_a_node_asks_for_goes_before_what_a_deploy_file_implies(tmp_path):
    model = chain(udf("a", dispatch="sticky"))
    placed = place(model, tmp_path, listed(a="0:0:0~1"))
    assert plan_of(model, placed).feeds[0][0].by == "sticky"


def test_joins_go_by_transaction_whatever_is_asked_for(tmp_path):
    models = [udf("a", 1, 2), udf("j", 2, dispatch="least_loaded", instances=2)]
    model = flow({"a": ["g:x"], "j": ["a:0", "a:1"]}, models, ["j:0"])
    plan = plan_of(model, place(model, tmp_path))
    assert {route.by for output in plan.instances[0].outputs for route in output} == {"label"}
    assert any("because what it joins must meet in one instance" in note for note in plan.notes)
    gather = udf("j", functions=(FuncSpec("f", (0,), (0,), gather=True),), instances=2, dispatch="sticky")
    plan = plan_of(chain(gather), place(chain(gather), tmp_path))
    assert plan.feeds[0][0].by == "transaction" and plan.placements[0].dispatch == "transaction"
    assert any("because it gathers all parts of one" in note for note in plan.notes)


def test_nodes_inside_a_graph_are_named_by_it_and_by_both(tmp_path):
    inner = UdfModel(name="g/in", engine="UDF", inputs=(FLOATS,), outputs=(FLOATS,), labels=("net/first", "net"))
    other = UdfModel(name="g/out", engine="UDF", inputs=(FLOATS,), outputs=(FLOATS,), labels=("net/last", "net"))
    model = chain(inner, other)
    placed = place(model, tmp_path, {**listed(net="0:0:0"), "deploy_info": [
        {"flow_node_name": "net/last", "logic_device_id": "0:0:1"},
    ]})
    assert devices(placed) == {"g/in": ["cpu:0"], "g/out": ["cpu:1"]}


def test_a_batching_node_goes_with_the_node_it_serves_once(tmp_path):
    batcher = UdfModel(
        name="b__BuiltIn_CountBatch_0", engine="UDF", builtin="_BuiltIn_CountBatch", inputs=(FLOATS,),
        outputs=(FLOATS,), labels=("b",),
    )
    model = chain(batcher, udf("b"))
    placed = place(model, tmp_path, listed(b="0:0:0~1"))
    assert devices(placed) == {"b__BuiltIn_CountBatch_0": ["cpu:0"], "b": ["cpu:0", "cpu:1"]}


def test_mistakes_in_a_deploy_file_are_told_at_once(tmp_path):
    """BC-101: unknown node, node missing, unknown device; with the nearest names."""
    model = chain(udf("decode"), udf("detect"), udf("track"))
    info = {"batch_deploy_info": [
        {"flow_node_list": ["decode", "detekt"], "logic_device_list": "0:0:0,0:0:7"},
    ]}
    assert faults(model, tmp_path, info) == [
        "line 8, batch_deploy_info[0].logic_device_list: there is no logical device 0:0:7:0 "
        "(there are 0:0:0:0 and 0:0:1:0, 0:0:-1:0 for the CPUs of the machine)",
        "line 6, batch_deploy_info[0].flow_node_list[1]: graph 'g' has no node 'detekt' (did you mean 'detect'?)",
        "line 1: node 'detect' is not listed; where one node is, all have to be (add it to a flow_node_list)",
        "line 1: node 'track' is not listed; where one node is, all have to be (add it to a flow_node_list)",
    ]


def test_graphs_may_share_a_deploy_file_that_names_the_nodes_of_all(tmp_path):
    info = listed(decode="0:0:0", detect="0:0:1")
    assert devices(place(chain(udf("decode")), tmp_path, info)) == {"decode": ["cpu:0"]}
    assert devices(place(chain(udf("detect")), tmp_path, info)) == {"detect": ["cpu:1"]}


def test_the_number_of_logical_devices_is_that_of_cpus_or_of_an_option(tmp_path):
    model = chain(udf("a"))
    assert "0:0:2:0" in faults(model, tmp_path, listed(a="0:0:2"))[0]
    assert devices(place(model, tmp_path, listed(a="0:0:2"), logical_devices=3)) == {"a": ["cpu:2"]}
    assert devices(place(model, tmp_path, listed(a="0:0:2"), cpus=8)) == {"a": ["cpu:2"]}


def test_models_go_to_the_devices_of_their_engine(tmp_path):
    model = chain(udf("pre"), npu("net"))
    placed = place(model, tmp_path, listed(pre="0:0:1", net="0:0:0~1"), npus=NPUS, cpus=1)
    assert devices(placed) == {"pre": ["cpu:1"], "net": ["npu:0", "npu:1"]}
    assert placed.placements[0].reason.endswith("; on CPUs, as engine UDF has no other devices")
    heavy = replace(udf("pre"), params={"_dflow_heavy_load": True})
    beside = place(chain(heavy, npu("net")), tmp_path, listed(pre="0:0:1", net="0:0:0~1"), npus=NPUS)
    assert beside.placements[0].reason.endswith("as heavy_load says")
    types = {one.node: [place.resource_type for place in one.places] for one in placed.placements}
    assert types == {"pre": [HOST], "net": ["Ascend", "Ascend"]}
    plan = plan_of(model, placed)
    assert [p.name for p in plan.processes] == ["pre", "NPU@npu:0", "NPU@npu:1"]
    told = faults(model, tmp_path, listed(pre="0:0:0", net="0:0:3"), npus=NPUS, cpus=4)
    assert told == [
        "line 13, batch_deploy_info[1].logic_device_list: node 'net': logical device 0:0:3:0 is none that engine NPU "
        "can use (it has 0:0:0:0, 0:0:1:0)"
    ]


def test_without_a_deploy_file_models_take_the_devices_of_their_engine_in_turn(tmp_path):
    model = chain(npu("a", instances=3), npu("b"))
    assert devices(place(model, tmp_path, npus=NPUS)) == {"a": ["npu:0", "npu:1", "npu:0"], "b": ["npu:0"]}
    placed = place(model, tmp_path, npus=NPUS, model_devices="[1:0]")
    assert devices(placed) == {"a": ["npu:1"] * 3, "b": ["npu:1"]}
    assert devices(place(chain(udf("a")), tmp_path, model_devices="0:0:9")) == {"a": ["cpu:0"]}, "nothing it is for"
    with pytest.raises(PlacementError, match="no logical device 0:0:9:0"):
        place(model, tmp_path, npus=NPUS, model_devices="0:0:9")
    with pytest.raises(PlacementError, match="option model_devices"):
        place(model, tmp_path, npus=NPUS, model_devices="npu 1")


def test_a_model_may_ask_for_a_device_by_number(tmp_path):
    asking = replace(npu("a", instances=2), settings={"device": "1"})
    placed = place(chain(asking, npu("b")), tmp_path, npus=NPUS)
    assert devices(placed) == {"a": ["npu:1", "npu:1"], "b": ["npu:0"]}
    assert placed.placements[0].reason == "the model's setting device=1"
    gone = place(chain(replace(npu("a"), settings={"device": "7"})), tmp_path, npus=NPUS)
    assert devices(gone) == {"a": ["npu:7"]}, "the engine says that it is not there"
    listing = place(chain(asking), tmp_path, listed(a="0:0:0"), npus=NPUS)
    assert devices(listing) == {"a": ["npu:0"]}, "the deploy file is nearer to the machine than the graph"


def test_an_engine_that_cannot_tell_its_devices_stops_nothing_yet(tmp_path):
    placed = place(chain(npu("a", instances=2)), tmp_path, npus=PluginError("no ACL library"))
    assert devices(placed) == {"a": ["npu:0", "npu:1"]}
    assert placed.notes == ("devices of engine NPU are not known: no ACL library",)


SERVER = {"node_id": 3, "node_type": "srv", "ipaddr": "10.0.0.5", "port": 5001, "item_list": [
    {"item_id": 0, "device_id": 1, "ipaddr": "10.1.0.5"}, {"item_id": 1, "device_id": 7},
]}
RESOURCES = {
    "cluster": [{"cluster_nodes": [SERVER], "nodes_topology": {
        "type": "star", "protocol": "RDMA:200Gb", "topos": [{"plane_id": 0, "devices": [0, 1]}],
    }}],
    "node_def": [{"node_type": "srv", "resource_type": HOST, "support_links": "[RDMA]", "item_type": "npu"}],
    "item_def": [{"item_type": "npu", "resource_type": "Ascend", "memory": "[DDR:64GB]", "aic_type": "[C:24]"}],
}


def test_a_resource_file_says_which_hardware_a_logical_device_is(tmp_path):
    model = chain(udf("pre"), npu("net"))
    placed = place(model, tmp_path, listed(pre="0:0:1", net="0:0:0"), RESOURCES, npus=NPUS)
    assert devices(placed) == {"pre": ["cpu:1"], "net": ["npu:1"]}
    assert str(tmp_path / "resource_file.json") in placed.notes[0]
    told = faults(model, tmp_path, listed(pre="0:0:-1:0", net="0:0:1"), resources=RESOURCES, npus=NPUS)
    assert "engine NPU does not find device 7 of 0:0:1:0" in told[0]
    told = faults(model, tmp_path, listed(pre_and_net="0:0:2"), resources=RESOURCES, npus=NPUS)
    assert len(told) == 1 and "there are 0:0:0:0 and 0:0:1:0" in told[0]


def test_the_variable_goes_before_the_option(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text("{}")
    with pytest.raises(PlacementError, match="variable RESOURCE_CONFIG_PATH"):
        environ = {"RESOURCE_CONFIG_PATH": str(path)}
        place_nodes(chain(udf("a")), Options(resource_file="/other"), Resources(1), engines(), environ)


def test_variables_that_go_before_the_thread_budget_are_told():
    placed = place_nodes(chain(udf("a")), Options(), Resources(1), engines(), {"OMP_NUM_THREADS": "8"})
    assert placed.notes == ("OMP_NUM_THREADS=8 of the environment goes before the threads of every node",)


def test_one_of_several_servers_must_be_this_machine(tmp_path):
    nobody = {**RESOURCES, "cluster": [{"cluster_nodes": [SERVER, {**SERVER, "node_id": 1, "ipaddr": "10.0.0.9"}]}]}
    assert "no server is this machine" in faults(chain(udf("a")), tmp_path, None, resources=nobody)[0]


def test_all_faults_of_a_resource_file_are_told_at_once(tmp_path):
    broken = {
        "cluster": [{"cluster_nodes": [
            {**SERVER, "node_type": "srw", "port": "5001", "data_panel": {"avail_ports": "1~2"}},
            {**SERVER, "ipaddr": 5},
        ], "nodes_topology": {"protocol": "USB", "topos": [{"plane_id": 0, "devices": "0"}]}}],
        "node_def": [{"node_type": "srv", "resource_type": "X68", "item_type": "gpu", "item_topology": [
            {"links_mode": "HCCS", "links": [[0, 1, 2]]}
        ]}],
        "item_def": [{"item_type": "npu", "memory": 3}],
    }
    told = faults(chain(udf("a")), tmp_path, None, resources=broken)
    wanted = [
        "expected X86, Aarch, Ascend, got 'X68'", "pairs of whole numbers", "expected a text, got 3",
        "expected a whole number, got \"5001\"", "ports from 1024 to 65535", "expected a text, got 5",
        "RDMA or TCP", "expected a list of whole numbers", "two servers have node_id 3", "no type 'srw'",
        "item_def has no type 'gpu'",
    ]
    assert [text for text in wanted if not any(text in line for line in told)] == []
    assert len(told) == len(wanted)


def test_a_template_lists_every_node_from_the_last_output_backwards(tmp_path):
    x = FlowData("x")
    a, b, c = (FuncProcessPoint(builtin="f", name=name).fnode(1, 1, name=name) for name in "abc")
    b.set_alias("second")
    graph = FlowGraph([b(a(x)), c(x)])
    path = tmp_path / "deploy.json"
    assert write_deploy_template(graph, str(path)) == 3
    entries = json.loads(path.read_text())["batch_deploy_info"]
    assert [entry["flow_node_list"] for entry in entries] == [["c"], ["second"], ["a"]]
    assert {entry["logic_device_list"] for entry in entries} == {"0:0:0:0"}
    with pytest.raises(UsageError, match="cannot be written"):
        write_deploy_template(graph, str(tmp_path / "no" / "deploy.json"))


def calling(tmp_path: Path, *, count: str, invoke: object, **inner: str) -> tuple[FlowModel, object]:
    """A function that calls a graph of two nodes, the second on an NPU; and a deploy file."""
    outside = UdfModel(name="f", engine="UDF", inputs=(FLOATS,), outputs=(FLOATS,), labels=("f",))
    labels = ("f/net", "f")
    inside = [
        UdfModel(name="f/net/pre", engine="UDF", inputs=(FLOATS,), outputs=(FLOATS,), labels=("f/net/pre", *labels)),
        GraphModel(
            name="f/net/model", engine="NPU", inputs=(FLOATS,), outputs=(FLOATS,), framework="onnx", source=b"",
            labels=("f/net/model", *labels),
        ),
    ]
    wires = {"f": ["g:x"], "f/net/pre": ["net:x"], "f/net/model": ["f/net/pre:0"]}
    model = flow(wires, [outside, *inside], ["f:0"])
    relation = replace(
        model.relation, endpoints=(*model.relation.endpoints, Endpoint("net:x")),
        invoked=(InvokedEndpoints("f", "net", ("net:x",), ("f/net/model:0",)),),
    )
    (tmp_path / "inner.json").write_text(json.dumps(listed(**inner)))
    entry = {"flow_node_list": ["f"], "logic_device_list": count, "invoke_list": invoke}
    return replace(model, relation=relation), {"batch_deploy_info": [entry]}


def test_what_a_function_invokes_goes_where_the_function_goes(tmp_path):
    model, info = calling(tmp_path, count="0:0:0~1", invoke=[{"invoke_name": "net"}])
    assert devices(place(model, tmp_path, info, npus=NPUS)) == {
        "f": ["cpu:0", "cpu:1"], "f/net/pre": ["cpu:0", "cpu:1"], "f/net/model": ["npu:0", "npu:1"],
    }
    model, info = calling(tmp_path, count="0:0:-1:0", invoke=[])
    assert devices(place(model, tmp_path, info, npus=NPUS))["f/net/model"] == ["npu:0"]


def test_an_invoke_list_says_where_it_goes_instead(tmp_path):
    one = {"invoke_name": "net", "logic_device_list": "0:0:1,0:0:0"}
    model, info = calling(tmp_path, count="0:0:0~1", invoke=[one])
    placed = place(model, tmp_path, {**info, "keep_logic_device_order": True}, npus=NPUS)  # type: ignore[dict-item]
    assert devices(placed)["f/net/model"] == ["npu:1", "npu:0"]
    file = {"invoke_name": "net", "deploy_info_file": "inner.json"}
    model, info = calling(tmp_path, count="0:0:0", invoke=[file], pre="0:0:0", model="0:0:1")
    placed = place(model, tmp_path, info, npus=NPUS)
    assert devices(placed) == {"f": ["cpu:0"], "f/net/pre": ["cpu:0"], "f/net/model": ["npu:1"]}
    assert placed.placements[2].reason == f"line 1 of {tmp_path / 'inner.json'}"


def test_mistakes_in_an_invoke_list_are_told(tmp_path):
    """BC-101: counts that differ, unknown names, and the faults of the file of an invoked graph."""
    few = {"invoke_name": "net", "logic_device_list": "0:0:1"}
    other = {"invoke_name": "ned", "logic_device_list": "0:0:1"}
    model, info = calling(tmp_path, count="0:0:0~1", invoke=[few, other])
    told = faults(model, tmp_path, info, npus=NPUS)
    assert any("'f' has 2 devices, what it invokes has 1" in text for text in told)
    assert any("nothing that is listed here invokes 'ned' (did you mean 'net'?)" in text for text in told)
    file = {"invoke_name": "net", "deploy_info_file": "inner.json"}
    model, info = calling(tmp_path, count="0:0:0~1", invoke=[file], pre="0:0:0~x")
    told = faults(model, tmp_path, info, npus=NPUS)
    assert any("'0:0:0~x' is no logical device" in text for text in told)
    assert any("node 'model' is not listed" in text for text in told)
    assert any("several instances cannot have a deploy file" in text for text in told)
