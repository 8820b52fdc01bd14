"""Logical devices, deploy files and resource files.

Sections 12.2 and 21 to 24 of the notes on the run time, 4 and 5 of those on files. Rows are decided without a process;
one deployed graph shows what functions see of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import dataflow as df
from dflow_core.deploy.planning.device_ids import parse_device_list
from dflow_core.errors import PlacementError
from dflow_core.model.deploy_plan import index_of
from tests.semantics.rules import Rule, rules, shows
from tests.unit.deploy.test_placement import NPUS, RESOURCES, chain, npu, place, plan_of
from tests.unit.deploy.test_planner import udf

LIMIT = 20000
FAILED = 0xFFFFFFFF


@rules(
    Rule("C4.3", "Three numbers get :0 behind them.", "0:0:1", ["0:0:1:0"]),
    Rule("C4.3", "Four numbers are as they are.", "0:0:1:2", ["0:0:1:2"]),
    Rule("C4.3", "A list is separated by commas.", "0:0:1,0:1:0", ["0:0:1:0", "0:1:0:0"]),
    Rule("C4.3", "Repetitions stay: several instances on one device.", "0:0:0,0:0:0", ["0:0:0:0", "0:0:0:0"]),
    Rule("C4.3", "A range of one.", "0:0:3~3", ["0:0:3:0"]),
    Rule("C4.3", "Several ranges give the Cartesian product from left to right.", "0:0~1:0~1",
         ["0:0:0:0", "0:0:1:0", "0:1:0:0", "0:1:1:0"]),
    Rule("C4.3", "One range in the list lets every item have some.",
         "0:0:0,0:0:1~2", ["0:0:0:0", "0:0:1:0", "0:0:2:0"]),
    Rule("C4.3", "A range goes up to 32767.", "0:0:32767~32767", ["0:0:32767:0"]),
    Rule("C4.3", "A number has at most 5 digits.", "0:0:99999", ["0:0:99999:0"]),
    Rule("C4.3", "A list has no minus sign.", "0:0:-1:0", ["0:0:-1:0"],
         differs="`0:0:-1:0` is refused in `logic_device_list`"),
)
def test_lists_of_devices(rule: Rule) -> None:
    assert parse_device_list(str(rule.given)) == rule.expected


@rules(
    Rule("C4.3", "An empty list.", "", "refused"),
    Rule("C4.3", "Two numbers.", "0:0", "refused"),
    Rule("C4.3", "Five numbers.", "0:0:0:0:0", "refused"),
    Rule("C4.3", "Six digits.", "0:0:123456", "refused"),
    Rule("C4.3", "Spaces.", "0:0:0, 0:0:1", "refused"),
    Rule("C4.3", "Brackets.", "[0:0:0]", "refused"),
    Rule("C4.3", "A comma at the end.", "0:0:0,", "refused"),
    Rule("C4.3", "A range that ends below its begin.", "0:0:3~1", "refused"),
    Rule("C4.3", "A range above 32767.", "0:0:0~32768", "refused"),
    Rule("C4.3", "More than 65535 ids in an item.", "0:0:0~255:0~256", "refused"),
    Rule("C4.3", "A range with a minus sign.", "0:0:-1~1", "refused"),
)
def test_lists_that_are_none(rule: Rule) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_device_list(str(rule.given))


def test_65535_ids_in_an_item_are_allowed() -> None:
    """Section 28: logical ids after expansion: 65 535."""
    assert len(parse_device_list("0:0:0~254:0~256")) == 65535


# ------------------------------------------------------------------------------------------------- what files say

def entry(node: str, text: str, **more: object) -> dict[str, object]:
    return {"flow_node_list": [node], "logic_device_list": text, **more}


def info(*entries: Mapping[str, object], **more: object) -> dict[str, object]:
    return {"batch_deploy_info": list(entries), **more}


ONE, TWO = chain(udf("a")), chain(udf("a"), udf("b"))
SIMPLE = {"deploy_info": [{"flow_node_name": "a", "logic_device_id": "[0:0:1, 0:0:-1:0]"}]}


@rules(
    Rule("21", "A node has an instance on each device that is listed.", (ONE, info(entry("a", "0:0:0~1:0"))),
         {"a": ["0:0:0:0", "0:0:1:0"]}),
    Rule("21", "Instances are in the order of devices, number by number.", (ONE, info(entry("a", "0:0:10,0:0:9"))),
         {"a": ["0:0:9:0", "0:0:10:0"]}),
    Rule("C4.1", "keep_logic_device_order: in the order of the file.",
         (ONE, info(entry("a", "0:0:10,0:0:9"), keep_logic_device_order=True)), {"a": ["0:0:10:0", "0:0:9:0"]}),
    Rule("C4.1", "deploy_info: a list of ids, with or without brackets and blanks.", (ONE, SIMPLE),
         {"a": ["0:0:-1:0", "0:0:1:0"]}),
    Rule("C4.1", "Both forms may be in one file.", (TWO, {**info(entry("b", "0:0:2")), **SIMPLE}),
         {"a": ["0:0:-1:0", "0:0:1:0"], "b": ["0:0:2:0"]}),
    Rule("C4.1", "Spare devices count with dynamic_schedule_enable only.",
         (ONE, info(entry("a", "0:0:0", redundant_logic_device_list="0:0:1"))), {"a": ["0:0:0:0"]}),
    Rule("C4.1", "With it they come behind the others.",
         (ONE, info(entry("a", "0:0:1,0:0:2", redundant_logic_device_list="0:0:0"), dynamic_schedule_enable=True)),
         {"a": ["0:0:1:0", "0:0:2:0", "0:0:0:0"]}),
    Rule("C1", "Unknown keys are ignored.", (ONE, info(entry("a", "0:0:0", color="red"), x=1)), {"a": ["0:0:0:0"]}),
    Rule("21", "Without a file a UDF must be built for NPUs.", (ONE, None), {"a": [""]}, "one instance on the CPUs",
         differs="a function without `heavy_load` needs a build for NPUs, and one without a device is refused"),
    Rule("21", "Without a file a model has an instance on each NPU.", (chain(npu("n")), None), {"n": ["0:0:0:0"]},
         "one instance", differs="a model without a device has an instance on each NPU"),
    Rule("21", "ge.exec.logicalDeviceId places models without a device; two numbers get 0:0: in front.",
         (chain(npu("n")), None, {"model_devices": "[1:0]"}), {"n": ["0:0:1:0"]}),
)
def test_where_instances_run(tmp_path: Path, rule: Rule) -> None:
    model, given, *more = rule.given  # type: ignore[misc]
    placed = place(model, tmp_path, given, cpus=16, npus=NPUS, **(more[0] if more else {}))
    assert {one.node: [p.logical_device for p in one.places] for one in placed.placements} == rule.expected


@rules(
    Rule("C4.1", "Neither array.", (ONE, {}), "batch_deploy_info"),
    Rule("C4.1", "A value of another type.", (ONE, {"batch_deploy_info": {}}), "list"),
    Rule("C4.1", "A flag that is no bool.", (ONE, info(entry("a", "0:0:0"), dynamic_schedule_enable="yes")), "true"),
    Rule("C4.1", "A node named twice.", (ONE, info(entry("a", "0:0:0"), entry("a", "0:0:1"))), "listed before"),
    Rule("C4.1", "A node that is not listed, where another one is.", (TWO, info(entry("a", "0:0:0"))), "'b'"),
    Rule("C4.1", "A device nobody knows.", (ONE, info(entry("a", "0:0:99"))), "0:0:99:0"),
    Rule("C4.1", "Spare devices without devices.",
         (ONE, info({"flow_node_list": ["a"], "redundant_logic_device_list": "0:0:0"}, dynamic_schedule_enable=True)),
         "logic_device_list"),
    Rule("C4.3", "A range in logic_device_id.",
         (ONE, {"deploy_info": [{"flow_node_name": "a", "logic_device_id": "0:0:0~1"}]}), "range"),
    Rule("21", "Two numbers are for the option only, not for files.",
         (ONE, {"deploy_info": [{"flow_node_name": "a", "logic_device_id": "0:1"}]}), "0:1"),
    Rule("21", "An NPU model on the CPU.", (chain(npu("n")), info(entry("n", "0:0:-1:0"))), "engine NPU"),
    Rule("C4.4", "An invocation listed twice.",
         (ONE, info(entry("a", "0:0:0", invoke_list=[{"invoke_name": "k"}, {"invoke_name": "k"}]))), "twice"),
    Rule("C4.4", "A deploy file and devices for one invocation.",
         (ONE, info(entry("a", "0:0:0", invoke_list=[
             {"invoke_name": "k", "deploy_info_file": "f", "logic_device_list": "0:0:0"}]))), "deploy file"),
)
def test_files_that_are_refused(tmp_path: Path, rule: Rule) -> None:
    model, given = rule.given  # type: ignore[misc]
    with pytest.raises(PlacementError) as caught:
        place(model, tmp_path, given, cpus=16, npus=NPUS)
    assert any(str(rule.expected) in f"{fault.port} {fault.message} {fault.hint}" for fault in caught.value.faults)


# --------------------------------------------------------------------------------------- sections 12.2, 22 and 24

@rules(
    Rule("12.2", "Ids go to the instances in turn; id 1 to the first.",
         ("transaction", 2, [(k, 0) for k in range(1, 5)]),
         [0, 1, 0, 1]),
    Rule("12.2", "With one instance everything goes there.", ("label", 1, [(1, 0), (2, 5)]), [0, 0]),
    Rule("12.2", "Equal ids and labels meet.", ("label", 3, [(7, 2), (7, 2)]), [1, 1]),
    Rule("12.2", "Different labels of one id are spread.",
         ("label", 3, [(1, 1), (1, 2), (1, 3), (1, 4)]), [0, 1, 2, 0]),
    Rule("12.2", "Label 0 is not used.", ("label", 3, [(1, 0), (2, 0), (3, 0), (4, 0)]), [0, 1, 2, 0]),
    Rule("12.2", "The largest id.", ("transaction", 7, [(2**64 - 2, 0)]), [(2**64 - 3) % 7]),
)
def test_which_instance_gets_a_message(rule: Rule) -> None:
    by, count, messages = rule.given  # type: ignore[misc]
    assert [index_of(by, trans_id, label, count) for trans_id, label in messages] == rule.expected


def test_two_nodes_of_as_many_instances_are_not_tied_pair_by_pair(tmp_path: Path) -> None:
    """Section 22, 6: instances of two models with equal counts are joined i to i.

    Here too every i sends to i only, as ids go in turn at both.
    """
    placed = place(TWO, tmp_path, info(entry("a", "0:0:0~1"), entry("b", "0:0:0~1")))
    plan = plan_of(TWO, placed)
    for instance in plan.instances:
        if instance.model == "a":
            (route,) = instance.outputs[0]
            for trans_id in range(1 + instance.index, 9, 2):
                assert route.queues[index_of(route.by, trans_id, 0, 2)] == f"a:0->b:0@{instance.index}"


@shows(
    Rule("24", "Dynamic scheduling: the instance with the least to do; spares only where no other is left.",
         here="dispatch least_loaded"),
    Rule("24", "An instance that has an id and label keeps it.", here="what joins goes by transaction or label"),
)
def test_dynamic_scheduling(tmp_path: Path) -> None:
    given = info(entry("a", "0:0:0,0:0:1", redundant_logic_device_list="0:0:1"), dynamic_schedule_enable=True)
    placed = place(ONE, tmp_path, given)
    assert placed.placements[0].dispatch == "least_loaded"
    assert [p.spare for p in placed.placements[0].places] == [False, False, True]
    (route,) = plan_of(ONE, placed).feeds[0]
    assert (route.by, route.spares) == ("load", 1)


# ------------------------------------------------------------------------------------------------ resource files

NODES = [{"node_id": 0, "node_type": "srv", "ipaddr": "10.0.0.5", "port": 5001}]


@pytest.fixture(scope="module")
def with_resources(workplace: Path) -> Path:
    """The resource file of the session."""
    df.finalize()
    df.init({"ge.resourceConfigPath": str(workplace / "own.json")})
    return workplace / "own.json"


LATER = "a mistake in the resource file is a DfException (145000) of the first `FlowGraph(...)`"


@rules(
    Rule("C5", "No such file.", None, FAILED, "4294967295 from the first feed", differs=LATER),
    Rule("C5", "No JSON.", "{", FAILED, "4294967295 from the first feed", differs=LATER),
    Rule("C5.1", "A key that must be there.", {"cluster": []}, FAILED, "4294967295 from the first feed", differs=LATER),
    Rule("C5.3", "A value of another type.",
         {**RESOURCES, "cluster": [{"cluster_nodes": [{**NODES[0], "port": "x"}]}]}, FAILED,
         "4294967295 from the first feed", differs=LATER),
    Rule("C5.5", "A resource type nobody knows.",
         {**RESOURCES, "node_def": [{**RESOURCES["node_def"][0], "resource_type": "X68"}]},  # type: ignore[dict-item]
         FAILED, "4294967295 from the first feed", differs=LATER),
    Rule("C5", "A file that is right.", RESOURCES, 0),
)
def test_resource_files(with_resources: Path, rule: Rule) -> None:
    with_resources.unlink(missing_ok=True)
    if rule.given is not None:
        with_resources.write_text(rule.given if isinstance(rule.given, str) else json.dumps(rule.given))
    data = df.FlowData()
    assert df.FlowGraph([all_seen.fnode()(data)]).feed({data: 1}) == rule.expected


# ------------------------------------------------------------------------------------------ visible_device_enable

SEES = chain(replace(udf("a"), params={"_dflow_visible_device_enable": True}))


@rules(
    Rule("C1.1", "visible_device_enable: the process sees the hardware of its device only, as device 0.",
         (info(entry("a", "0:0:1")), RESOURCES), [("cpu:0", 7, "")]),
    Rule("C1.1", "Each instance sees its own.", (info(entry("a", "0:0:0~1")), RESOURCES),
         [("cpu:0", 1, ""), ("cpu:0", 7, "")]),
    Rule("C1.1", "Without hardware (id below 0) the process fails at its start.",
         (info(entry("a", "0:0:-1:0")), RESOURCES), [("cpu:0", -1, "does nothing")],
         "it sees all, and the plan says so",
         differs="`visible_device_enable` without an NPU stops the function's process (164000)"),
    Rule("C1.1", "Without a resource file there is no hardware.", (info(entry("a", "0:0:1")), None),
         [("cpu:1", -1, "does nothing")], "it sees all, and the plan says so",
         differs="`visible_device_enable` without an NPU stops the function's process (164000)"),
    Rule("C1.1", "Without a deploy file there is no device.", (None, RESOURCES), [("cpu:0", -1, "does nothing")],
         "it sees all, and the plan says so",
         differs="`visible_device_enable` without an NPU stops the function's process (164000)"),
)
def test_what_functions_see_of_devices(tmp_path: Path, rule: Rule) -> None:
    given, resources = rule.given  # type: ignore[misc]
    (one,) = place(SEES, tmp_path, given, resources).placements
    assert [(p.device, p.visible) for p in one.places] == [(dev, number) for dev, number, _ in rule.expected]  # type: ignore[attr-defined]
    for *_, why in rule.expected:  # type: ignore[attr-defined]
        assert (why or "visible") in (one.reason if why else "visible") and bool(why) == ("visible" in one.reason)


@df.pyflow(visible_device_enable=True)
def seen(x):
    return os.environ.get("ASCEND_RT_VISIBLE_DEVICES"), df.get_running_device_id(), df.get_running_instance_id()


@df.pyflow
def all_seen(x):
    return os.environ.get("ASCEND_RT_VISIBLE_DEVICES"), df.get_running_device_id(), df.get_running_instance_num()


@shows(
    Rule("C1.1", "ASCEND_RT_VISIBLE_DEVICES is the number of the hardware, and the running device is 0.",
         here="\"1\" and \"7\", 0"),
    Rule("P13.7", "Other functions get the number of their logical device, and of instances.", here="1, and 1"),
    Rule("21", "The option ge.resourceConfigPath names the resource file.", here="the same"),
)
def test_functions_see_their_own_device(workplace: Path) -> None:
    (workplace / "resources.json").write_text(json.dumps(RESOURCES))
    df.finalize()
    df.init({"ge.resourceConfigPath": str(workplace / "resources.json")})
    data = df.FlowData()
    nodes = [seen.fnode().set_alias("one"), all_seen.fnode().set_alias("all")]
    (workplace / "deploy.json").write_text(json.dumps(info(entry("one", "0:0:0~1"), entry("all", "0:0:1"))))
    graph = df.FlowGraph(
        [node(data) for node in nodes], {"ge.experiment.data_flow_deploy_info_path": str(workplace / "deploy.json")}
    )
    found = []
    for _ in range(2):
        assert graph.feed({data: 1}) == 0
        found.append(graph.fetch(timeout=LIMIT))
    assert found == [([("1", 0, 0), (None, 1, 1)], 0), ([("7", 0, 1), (None, 1, 1)], 0)]
    df.finalize()
