"""Batch attributes: checked once, never changed (BC-041, BC-045)."""

from __future__ import annotations

import dataclasses
import math
import pickle
from datetime import timedelta

import pytest

from dflow_core.errors import OptionError
from dflow_core.graph import CountBatch, FlowData, FlowGraph, TimeBatch
from tests.unit.graph.kit import func


@pytest.mark.parametrize(("given", "seconds"), [(2, 2.0), (0.25, 0.25), (timedelta(milliseconds=250), 0.25)])
def test_durations_are_seconds_whatever_they_are_given_as(given, seconds):
    assert TimeBatch(given).time_window == seconds
    assert CountBatch(3, timeout=given).timeout == seconds


def test_defaults_are_those_of_the_specification():
    assert TimeBatch(-1) == TimeBatch(-1.0, batch_dim=-1, drop_remainder=False)
    assert CountBatch(4) == CountBatch(4, slide_stride=0, timeout=0, padding=False)


@pytest.mark.parametrize("bad", [-2, -0.5, math.nan, math.inf, -math.inf, "1", None, True, timedelta(seconds=-3)])
def test_durations_that_cannot_be_are_refused_in_one_way(bad):
    """BC-045: float, negative and huge values validated in one way everywhere."""
    for make in (lambda: TimeBatch(bad), lambda: CountBatch(1, timeout=bad)):
        with pytest.raises(OptionError, match=r"seconds"):
            make()


def test_a_window_of_zero_names_the_way_to_wait_for_flags():
    with pytest.raises(OptionError, match="use -1"):
        TimeBatch(0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch_size": 0}, "batch_size: expected at least 1, got 0"),
        ({"batch_size": True}, "whole number"),
        ({"batch_size": 2.0}, "whole number"),
        ({"batch_size": 4, "slide_stride": 5}, "slide_stride: expected 0 to 4, got 5"),
        ({"batch_size": 4, "slide_stride": -1}, "slide_stride"),
        ({"batch_size": 4, "padding": 300}, "padding: expected True or False, got 300"),
    ],
)
def test_count_batch_refuses(arguments, words):
    with pytest.raises(OptionError, match=words):
        CountBatch(**arguments)


@pytest.mark.parametrize(("arguments", "words"), [({"batch_dim": -2}, "batch_dim"), ({"drop_remainder": 1}, "drop_")])
def test_time_batch_refuses(arguments, words):
    with pytest.raises(OptionError, match=words):
        TimeBatch(1, **arguments)


def test_one_batch_for_all_inputs_is_independent_everywhere_and_cannot_be_changed():
    """BC-041: the same config object reused for all; mutating it has no effect."""
    batch = CountBatch(3)
    nodes = [func(2), func(2)]
    x, y = FlowData("x"), FlowData("y")
    for node in nodes:
        for port in (0, 1):
            node.map_input(port, node.point, port, [batch])
    graph = FlowGraph([node(x, y) for node in nodes])
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.batch_size = 7
    assert [node.batching(port) for node in graph.nodes for port in (0, 1)] == [(CountBatch(3),)] * 4
    assert graph.faults() == ()


def test_batches_say_in_short_what_they_are():
    assert str(CountBatch(3)) == "CountBatch(3)"
    assert str(CountBatch(3, 1, 0.5, True)) == "CountBatch(3, slide_stride=1, timeout=0.5, padding=True)"
    assert str(TimeBatch(2)) == "TimeBatch(2)"
    assert str(TimeBatch(-1, 0, True)) == "TimeBatch(-1, batch_dim=0, drop_remainder=True)"


def test_batches_can_be_pickled_and_compared():
    for batch in (TimeBatch(1.5, 0), CountBatch(3, timeout=1)):
        assert pickle.loads(pickle.dumps(batch)) == batch
        assert hash(batch) == hash(dataclasses.replace(batch))
