"""Graphs over several machines: where nodes go, which queues cross, and what part of the plan is whose."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_core.deploy import place_nodes, plan_deployment
from dflow_core.deploy.planning.parts import Parts, split_plan
from dflow_core.deploy.planning.resources import Resources
from dflow_core.errors import PlacementError
from dflow_core.executor import with_failed_calls
from dflow_core.model import (
    Crossing,
    DeployPlan,
    Endpoint,
    FlowModel,
    InstancePlace,
    InvokedEndpoints,
    Machine,
    NodePlacement,
)
from dflow_core.options import Options
from tests.unit.deploy.test_placement import chain, engines, listed, npu
from tests.unit.deploy.test_planner import ENGINES, cpu, flow, udf

B, C = Machine("server1", "10.0.0.2:7070", 4, "X86"), Machine("server2", "[fe80::2]:7071", 0, "X86")


def place(node: str, *machines: str, dispatch: str = "transaction") -> NodePlacement:
    return NodePlacement(
        node, tuple(InstancePlace("cpu:0", machine=one) for one in machines), dispatch if len(machines) > 1 else ""
    )


def planned(model: FlowModel, *placements: NodePlacement, machines: tuple[Machine, ...] = (B, C)) -> DeployPlan:
    return plan_deployment(model, Resources(2), ENGINES, Options(queue_depth=8), "shm", placements, machines)


def queues(plan: DeployPlan) -> list[str]:
    return [queue.name for queue in plan.queues]


def test_a_queue_between_two_machines_is_on_both():
    plan = planned(chain(udf("a"), udf("b")), place("a", ""), place("b", "server1"), machines=(B,))
    assert plan.crossings == (
        Crossing("a:0->b:0", "", "server1"), Crossing("b:0->fetch:0", "server1", ""),
    )
    parts = split_plan(plan)
    assert queues(parts.head) == ["g:x->a:0", "a:0->b:0", "b:0->fetch:0"]
    assert queues(parts.others["server1"]) == ["a:0->b:0", "b:0->fetch:0"]
    assert [one.name for one in parts.head.processes] == ["a"]
    assert [one.name for one in parts.others["server1"].processes] == ["server1/b"]
    assert (parts.head.fetches, parts.others["server1"].fetches) == (("b:0->fetch:0",), ())
    assert (parts.head.machine, parts.others["server1"].machine) == ("", "server1")


def test_between_two_others_messages_pass_the_machine_of_the_application():
    plan = planned(chain(udf("a"), udf("b")), place("a", "server1"), place("b", "server2"))
    assert plan.crossings == (
        Crossing("g:x->a:0", "", "server1"),
        Crossing("a:0->b:0", "server1", ""), Crossing("a:0->b:0", "", "server2"),
        Crossing("b:0->fetch:0", "server2", ""),
    )
    assert queues(split_plan(plan).head) == ["g:x->a:0", "a:0->b:0", "b:0->fetch:0"]


def test_instances_on_several_machines_have_queues_of_their_own():
    model = chain(udf("a", instances=2))
    plan = planned(model, place("a", "", "server1", dispatch="free"), machines=(B,))
    assert plan.placements[0].dispatch == "least_loaded"
    assert any("several machines, which have no queue in common" in note for note in plan.notes)
    assert plan.crossings == (Crossing("g:x->a:0@1", "", "server1"), Crossing("a:0->fetch:0", "server1", ""))
    both = planned(model, place("a", "server1", "server1", dispatch="free"), machines=(B,))
    assert both.placements[0].dispatch == "free"


def test_notices_of_lossy_queues_are_wherever_the_queue_is():
    lossy = Endpoint("a:0", overflow="drop_oldest")
    model = flow({"a": ["g:x"], "b": ["a:0"]}, [udf("a"), udf("b")], ["b:0"], endpoints=(lossy,))
    plan = planned(model, place("a", ""), place("b", "server1"), machines=(B,))
    parts = split_plan(plan)
    assert "dropped: a:0->b:0" in queues(parts.head) and "dropped: a:0->b:0" in queues(parts.others["server1"])
    assert all(not one.queue.startswith("dropped") for one in plan.crossings)


def test_failed_calls_come_from_every_machine():
    plan = with_failed_calls(planned(chain(udf("a")), place("a", "server1"), machines=(B,)))
    assert plan.crossings[-1] == Crossing("failed calls", "server1", "")
    parts = split_plan(plan)
    assert "failed calls" in queues(parts.head) and "failed calls" in queues(parts.others["server1"])


def test_processes_and_threads_belong_to_their_machine():
    plan = planned(chain(cpu("m"), cpu("n")), place("m", ""), place("n", "server1"), machines=(B,))
    assert [(one.name, one.machine) for one in plan.processes] == [("CPU@cpu:0", ""), ("server1/CPU@cpu:0", "server1")]
    assert [(one.node, one.machine, one.threads) for one in plan.budget] == [("m", "", 2), ("n", "server1", 4)]
    assert split_plan(plan).others["server1"].cpus == 4


def test_what_a_function_calls_is_on_its_machine():
    model = flow({"a": ["g:x"], "inner": ["g:a/call"]}, [udf("a"), udf("inner")], ["a:0"])
    relation = replace(
        model.relation, endpoints=(*model.relation.endpoints, Endpoint("g:a/call")),
        invoked=(InvokedEndpoints("a", "call", ("g:a/call",), ("inner:0",)),),
    )
    model = replace(model, relation=relation)
    with pytest.raises(PlacementError, match="server1, and 'a', which calls it, on the application's machine"):
        planned(model, place("a", ""), place("inner", "server1"), machines=(B,))
    plan = planned(model, place("a", "server1"), place("inner", "server1"), machines=(B,))
    assert {one.queue for one in plan.crossings} == {"g:x->a:0", "a:0->fetch:0"}


def test_the_plan_says_what_goes_over_which_link():
    plan = planned(chain(udf("a")), place("a", "server2"), machines=(C,))
    assert "messages go to server2 ([fe80::2]:7071) in g:x->a:0" in plan.notes
    assert "messages go from server2 ([fe80::2]:7071) in a:0->fetch:0" in plan.notes


SERVERS = {
    "cluster": [{"cluster_nodes": [
        {"node_id": 0, "node_type": "srv", "ipaddr": "10.0.0.1", "port": 1, "is_local": True, "item_list": []},
        {"node_id": 4, "node_type": "srv", "ipaddr": "10.0.0.9", "port": 7070, "is_local": False, "item_list": [
            {"item_id": 0, "device_id": 0}, {"item_id": 1, "device_id": 5},
        ]},
    ]}],
    "node_def": [{"node_type": "srv", "item": [{"item_type": "kind"}]}],
    "item_def": [{"item_type": "kind"}],
}


def placed_by_files(model: FlowModel, folder: Path, info: object, item_type: str) -> DeployPlan:
    resources = json.loads(json.dumps(SERVERS))
    resources["item_def"][0]["resource_type"] = item_type
    given = {}
    for name, content in (("deploy_info", info), ("resource_file", resources)):
        given[name] = str(folder / f"{name}.json")
        Path(given[name]).write_text(json.dumps(content), encoding="utf-8")
    options = Options(**given)
    found = place_nodes(model, options, Resources(2), engines([]), {})
    shares = {name: entry.shares_process for name, entry in engines().items()}
    return plan_deployment(model, Resources(2), shares, options, "shm", found.placements, found.machines)


def test_servers_of_a_resource_file_are_machines(tmp_path):
    plan = placed_by_files(chain(udf("a"), udf("b")), tmp_path, listed(a="0:1:1", b="0:1:-1:0"), "X86")
    assert plan.machines == (Machine("server1", "10.0.0.9:7070", 2, plan.machines[0].resource_type),)
    assert [place.machine for one in plan.placements for place in one.places] == ["server1", "server1"]
    near = placed_by_files(chain(udf("a")), tmp_path, listed(a="0:0:-1:0"), "X86")
    assert (near.machines, near.crossings) == ((), ())


def test_servers_of_several_clusters_are_different_machines(tmp_path, monkeypatch):
    second = json.loads(json.dumps(SERVERS["cluster"][0]))
    second["cluster_nodes"][1]["ipaddr"] = "10.1.0.9"
    monkeypatch.setitem(SERVERS, "cluster", [*SERVERS["cluster"], second])
    plan = placed_by_files(chain(udf("a"), udf("b")), tmp_path, listed(a="0:1:1", b="1:1:1"), "X86")
    assert [(one.name, one.address) for one in plan.machines] == [
        ("server1", "10.0.0.9:7070"), ("server1.1", "10.1.0.9:7070"),
    ]
    assert [(one.instances[0].model, one.machine) for one in plan.processes] == [("a", "server1"), ("b", "server1.1")]


def test_a_device_there_is_known_from_the_file(tmp_path):
    plan = placed_by_files(chain(npu("net")), tmp_path, listed(net="0:1:1"), "Ascend")
    assert plan.placements[0].places[0].device == "npu:5"
    with pytest.raises(PlacementError, match="engine NPU does not find device 5 of 0:1:1:0"):
        placed_by_files(chain(npu("net")), tmp_path, listed(net="0:1:1"), "X86")
    with pytest.raises(PlacementError, match="0:1:0:0 and 0:1:1:0, 0:1:-1:0 for the CPUs of the machine on server1"):
        placed_by_files(chain(npu("net")), tmp_path, listed(net="0:2:1"), "Ascend")


def joined(parts: Parts) -> tuple[set[str], set[str]]:
    every = [parts.head, *parts.others.values()]
    names = [process.name for part in every for process in part.processes]
    assert len(names) == len(set(names))
    return set(names), {name for part in every for name in queues(part)}


@given(st.lists(st.lists(st.sampled_from(["", "server1", "server2"]), min_size=1, max_size=3), min_size=1, max_size=4))
def test_the_parts_are_the_whole(machines):
    models = [udf(f"n{i}", instances=len(where)) for i, where in enumerate(machines)]
    plan = planned(chain(*models), *(place(f"n{i}", *where) for i, where in enumerate(machines)))
    parts = split_plan(plan)
    assert joined(parts) == ({one.name for one in plan.processes}, set(queues(plan)))
    for part in (parts.head, *parts.others.values()):
        own, here = part.machine, set(queues(part))
        for one in (instance for process in part.processes for instance in process.instances):
            used = {*one.reads, *(name for routes in one.outputs for route in routes for name in route.queues)}
            assert used <= here
        assert all(own in (one.source, one.target) and one.queue in here for one in part.crossings)
    # Every message gets from where it is put to where it is taken: no part has a queue that nobody empties.
    readers = {name: process.machine for process in plan.processes for one in process.instances for name in one.reads}
    readers |= dict.fromkeys(plan.fetches, "")
    for part in (parts.head, *parts.others.values()):
        leaves = {one.queue for one in part.crossings if one.source == part.machine}
        assert all((readers[name] == part.machine) != (name in leaves) for name in queues(part))
