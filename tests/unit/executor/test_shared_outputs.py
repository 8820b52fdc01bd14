"""Outputs that several functions of a node may send to."""

from __future__ import annotations

from dflow_core.executor.node.shared_outputs import SharedOutputs
from dflow_core.types import FuncSpec

FUNCTIONS = [FuncSpec("f", (0,), (0, 1)), FuncSpec("g", (1,), (0,)), FuncSpec("h", (2,), (0,))]


def test_a_key_ends_on_a_shared_output_when_all_have_sent_nothing():
    shared = SharedOutputs(FUNCTIONS)
    assert [shared.ends(0, (7, 0)) for _ in range(3)] == [False, False, True]
    assert [shared.ends(0, (7, 0)) for _ in range(3)] == [False, False, True]


def test_an_output_of_its_own_ends_at_once():
    assert SharedOutputs(FUNCTIONS).ends(1, (7, 0))


def test_keys_are_told_apart_and_the_oldest_forgotten():
    shared = SharedOutputs(FUNCTIONS[:2])
    assert not shared.ends(0, (1, 0))
    assert not shared.ends(0, (1, 1))
    for number in range(2, 20_000):
        shared.ends(0, (number, 0))
    assert not shared.ends(0, (1, 0))
