from __future__ import annotations

import dataclasses

import pytest

from dflow_core.errors import UsageError
from dflow_core.model import FlowModel, GraphModel, ModelEndpoints, Route


def test_endpoints_are_found_by_name(flow_model: FlowModel):
    assert flow_model.relation.endpoint("detect:0").depth == 4
    with pytest.raises(UsageError, match="graph 'g' has no endpoint 'detect:1'"):
        flow_model.relation.endpoint("detect:1")


def test_readers_and_writers_of_an_endpoint(flow_model: FlowModel):
    relation = flow_model.relation
    assert relation.consumers("g:x") == [("outer/join", 1), ("detect", 0)]
    assert relation.consumers("outer/join:0") == []
    assert relation.producer("detect:0") == ("detect", 0)
    assert relation.producer("g:x") is None


def test_models_are_values(graph_model: GraphModel):
    assert dataclasses.replace(graph_model) == graph_model
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph_model.name = "other"


@pytest.mark.parametrize(
    ("trans_id", "label", "queue"),
    [(1, 0, "a"), (2, 0, "b"), (3, 0, "c"), (4, 0, "a"), (1, 1, "a"), (1, 2, "b"), (1, 3, "c"), (2, 3, "a")],
)
def test_a_route_visits_its_queues_in_turn_and_spreads_labels(trans_id: int, label: int, queue: str):
    """runtime-semantics section 12.2: id 1 goes to the first; equal (id, label) meet."""
    assert Route(("a", "b", "c")).pick(trans_id, label) == queue


def test_a_route_of_one_queue_has_no_choice():
    assert {Route(("only",)).pick(n, label) for n in range(5) for label in range(5)} == {"only"}


def test_a_plan_lists_the_instances_of_all_processes():
    from dflow_core.model import DeployPlan, InstancePlan, ProcessPlan

    def process(*names: str) -> ProcessPlan:
        made = tuple(InstancePlan(name, 0, 1, "p", "cpu:0", 1, (), ()) for name in names)
        return ProcessPlan("p", "CPU", "", made)

    plan = DeployPlan("g", "shm", (process("a", "b"), process("c")), (), (), (), 2)
    assert [instance.model for instance in plan.instances] == ["a", "b", "c"]
def test_joins_in_a_row_are_those_one_message_may_wait_in(flow_model: FlowModel):
    ends = {name: ModelEndpoints(name, inputs, (f"{name}:0",)) for name, inputs in {
        "a": ("g:x",), "j": ("a:0", "g:x"), "k": ("j:0", "a:0"), "l": ("a:0", "a:0"),
    }.items()}
    relation = dataclasses.replace(flow_model.relation, submodels=ends)
    for outputs, expected in {("a:0",): 0, ("l:0", "a:0"): 1, ("k:0", "l:0"): 2}.items():
        root = ModelEndpoints("g", ("g:x",), outputs)
        assert dataclasses.replace(relation, root=root).joins_in_a_row == expected
