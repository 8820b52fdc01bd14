"""Which outputs of an instance are read inside its own process and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dflow_core.model import InstancePlan, ProcessPlan, Route


def instance(model: str, inputs: tuple[str, ...], *outputs: tuple[str, ...], count: int = 1) -> InstancePlan:
    """An instance whose outputs each go to the queues named."""
    routes = tuple(tuple(Route((queue,)) for queue in queues) for queues in outputs)
    return InstancePlan(model, 0, count, "NPU@cpu:0", "cpu:0", 1, inputs, routes)


def process(*instances: InstancePlan) -> ProcessPlan:
    """The process they live in."""
    return ProcessPlan("NPU@cpu:0", "NPU", "", instances)


HEAD = instance("head", ("in",), ("a->b",))
TAIL = instance("tail", ("a->b",), ("out",))


def test_a_chain_stays_and_its_result_does_not() -> None:
    inside = process(HEAD, TAIL)
    assert inside.outputs_that_stay(HEAD) == (True,)
    assert inside.outputs_that_stay(TAIL) == (False,)


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        (instance("head", ("in",), ("a->b", "a->fetch")), TAIL),
        (replace(HEAD, notices={"a->b": "notice"}), TAIL),
        (HEAD, instance("tail", ("a->b", "other"), ("out",))),
        (HEAD, instance("tail", ("a->b",), ("out",), count=2)),
        (HEAD, instance("tail", ("other",), ("out",))),
        (instance("head", ("in",), ()), TAIL),
    ],
    ids=["fans-out", "may-drop", "joins", "two-instances", "elsewhere", "nowhere"],
)
def test_what_another_may_read_does_not_stay(head: InstancePlan, tail: InstancePlan) -> None:
    assert process(head, tail).outputs_that_stay(head) == (False,)


def test_a_loop_of_one_node_does_not_stay() -> None:
    own = instance("loop", ("a->a",), ("a->a",))
    assert process(own).outputs_that_stay(own) == (False,)
