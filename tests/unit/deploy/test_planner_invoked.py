"""Where the graphs that functions call are put: the i-th instance serves the i-th (runtime-semantics.md section 18)."""

from __future__ import annotations

import dataclasses
import json

import pytest

from dflow_core.deploy.planning.placing import place_nodes
from dflow_core.deploy.planning.planner import plan_deployment
from dflow_core.deploy.planning.resources import Resources
from dflow_core.errors import OptionError
from dflow_core.model import DeployPlan, Endpoint, FlowModel, InvokedEndpoints, InvokedPlan, Route
from dflow_core.options import Options
from tests.unit.deploy.test_placement import engines
from tests.unit.deploy.test_planner import ENGINES, OPTIONS, cpu, flow, udf


def calling(instances: int = 1, inner: int = 1) -> FlowModel:
    """`f` calls `a` and then `m` as graph `k`."""
    model = flow(
        {"f": ["g:x"], "f/k/a": ["f/k:p"], "f/k/m": ["f/k/a:0"]},
        [udf("f", instances=instances), udf("f/k/a", instances=inner), cpu("f/k/m")], ["f:0"],
    )
    relation = dataclasses.replace(
        model.relation, endpoints=(*model.relation.endpoints, Endpoint("f/k:p")),
        invoked=(InvokedEndpoints("f", "k", ("f/k:p",), ("f/k/m:0",)),),
    )
    return dataclasses.replace(model, relation=relation)


def plan(model: FlowModel) -> DeployPlan:
    return plan_deployment(model, Resources(4, ()), ENGINES, OPTIONS, "shm")


def test_a_function_feeds_and_fetches_what_it_calls():
    found = plan(calling())
    f, a, m = found.instances
    feed, fetch = "f/k:p->f/k/a:0", "f/k/m:0->f/k:0"
    assert f.invoked == (InvokedPlan("k", ((Route((feed,)),),), (fetch,)),)
    assert f.reads == ("g:x->f:0", fetch)
    assert a.inputs == (feed,)
    assert m.outputs == ((Route((fetch,)),),)
    assert found.fetches == ("f:0->fetch:0",)
    assert {feed, fetch} < {queue.name for queue in found.queues}
    assert "f: calls 'k', which is f/k/a, f/k/m" in found.notes


def test_each_instance_of_a_function_has_its_own_of_all_it_calls():
    found = plan(calling(3))
    by_place = {(i.model, i.index): i for i in found.instances}
    assert len(by_place) == 9
    for n in range(3):
        (called,) = by_place["f", n].invoked
        assert by_place["f/k/a", n].inputs == called.feeds == (f"f/k:p->f/k/a:0@{n}",)
        assert by_place["f/k/a", n].outputs == ((Route(by_place["f/k/m", n].inputs),),)
        assert by_place["f/k/m", n].outputs == ((Route(called.outputs),),)
    assert len({by_place["f", n].invoked[0].outputs for n in range(3)}) == 3
    assert by_place["f", 0].inputs == by_place["f", 1].inputs


def test_other_numbers_of_instances_inside_are_refused():
    with pytest.raises(OptionError, match="it has 3 instances, and the function that calls it has 2"):
        plan(calling(2, 3))
    assert len(plan(calling(2, 2)).instances) == 6


def test_what_is_called_is_placed_with_its_function_or_by_its_own_name(tmp_path):
    model = calling()
    labels = {"f": ("f",), "f/k/a": ("f/k/a", "f/a", "f/k", "f"), "f/k/m": ("f/k", "f")}
    labelled = {name: dataclasses.replace(sub, labels=labels[name]) for name, sub in model.submodels.items()}
    model = dataclasses.replace(model, submodels=labelled)
    listed = [{"flow_node_list": ["f"], "logic_device_list": "0:0:0:0,0:0:1:0"}]
    file = tmp_path / "deploy.json"
    file.write_text(json.dumps({"batch_deploy_info": listed}))
    options = Options(deploy_info=str(file), logical_devices=2, queue_depth=8)
    placed = place_nodes(model, options, Resources(4, ()), engines(), {})
    found = plan_deployment(model, Resources(4, ()), ENGINES, OPTIONS, "shm", placed.placements)
    assert len(found.instances) == 6
    file.write_text(json.dumps({"batch_deploy_info": [
        *listed, {"flow_node_list": ["f/k"], "logic_device_list": "0:0:0:0"}
    ]}))
    placed = place_nodes(model, options, Resources(4, ()), engines(), {})
    with pytest.raises(OptionError, match="it has 1 instances, and the function that calls it has 2"):
        plan_deployment(model, Resources(4, ()), ENGINES, OPTIONS, "shm", placed.placements)
