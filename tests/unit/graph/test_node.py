"""Nodes: wiring, mapping, attributes, options, queues."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dflow_core.errors import GraphError, OptionError, UsageError
from dflow_core.graph import (
    CountBatch,
    FlowData,
    FlowGraph,
    FlowNode,
    FlowOutput,
    FuncProcessPoint,
    QueueSettings,
    TimeBatch,
)
from dflow_core.types import DataType, TensorSpec
from tests.unit.graph.kit import func


@pytest.mark.parametrize("counts", [(-1, 1), (1, 1025), (True, 1), (1.0, 1), ("1", 1), (1, None)])
def test_counts_of_ports_are_checked_at_once(counts):
    with pytest.raises(UsageError, match="whole number from 0 to 1024"):
        FlowNode(*counts)


def test_calling_gives_nothing_one_output_or_a_tuple():
    x = FlowData()
    assert FlowNode(1, 0)(x) is None
    one = FlowNode(1, 1)
    assert one(x) == FlowOutput(one, 0)
    two = FlowNode(1, 2)
    assert two(x) == (FlowOutput(two, 0), FlowOutput(two, 1)) == two.outputs


def test_a_call_with_another_number_of_inputs_says_so():
    node = FlowNode(2, 1, "n")
    with pytest.raises(GraphError, match="expected 2 inputs, got 1") as error:
        node(FlowData())
    assert error.value.faults[0].kind == "arity"
    assert node.sources == (None, None)


@pytest.mark.parametrize("bad", [None, 3, "x", FlowNode(1, 1)])
def test_an_input_of_another_type_is_refused_and_nothing_is_wired(bad):
    node = FlowNode(2, 1, "n")
    with pytest.raises(UsageError, match="input 1: expected FlowData or FlowOutput"):
        node(FlowData(), bad)
    assert node.sources == (None, None)


def test_all_outputs_of_a_node_may_be_given_at_once():
    pair = FlowNode(0, 2)()
    join = FlowNode(2, 1)
    join(pair)
    assert join.sources == pair
    assert FlowGraph([pair]).outputs == pair
    with pytest.raises(GraphError, match="expected 1 inputs, got 2"):
        FlowNode(1, 1)(pair)


def test_a_second_call_wires_anew():
    node, x, y = FlowNode(1, 1), FlowData("x"), FlowData("y")
    node(x)
    node(y)
    assert node.sources == (y,)


def test_outputs_of_a_node_with_several_are_named_by_number():
    assert [o.name for o in FlowNode(0, 2, "n").outputs] == ["n:0", "n:1"]
    assert FlowNode(0, 1, "n").outputs[0].name == "n"


def test_mapping_turns_ports_around():
    node = func(2, 2)
    node.map_input(0, node.point, 1, [TimeBatch(1)])
    node.map_input(1, node.point, 0)
    node.map_output(0, node.point, 1)
    node.map_output(1, node.point, 0)
    assert node.point_inputs() == node.point_outputs() == (1, 0)
    assert (node.batching(0), node.batching(1)) == ((TimeBatch(1),), ())


def test_without_mapping_ports_go_straight_through():
    assert func(3, 2).point_inputs() == (0, 1, 2)


def test_mapping_refuses_what_is_no_batch_no_point_or_no_number():
    node = func()
    for arguments in ((0, node.point, 0, [3]), (0, "point", 0), ("0", node.point, 0), (0, node.point, None)):
        with pytest.raises(UsageError, match="expected"):
            node.map_input(*arguments)
    assert node.input_maps == ()


def test_options_are_set_one_by_one_and_keep_the_others():
    node = func().set_options(instances=3, call_timeout=timedelta(seconds=2)).set_options(threads=2)
    assert (node.options.instances, node.options.call_timeout, node.options.threads) == (3, 2.0, 2)


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(OptionError, match="did you mean 'instances'"):
        func().set_options(instance=2)


@pytest.mark.parametrize(
    "bad",
    [
        {"instances": 0}, {"instances": 1.5}, {"threads": -1}, {"restarts": True}, {"env": 3}, {"call_timeout": -1},
        {"call_timeout": "1"}, {"call_timeout": None}, {"on_error": "ignore"}, {"process": None}, {"depth": -1},
        {"depth": "4"}, {"engine": 3}, {"when_lost": "perhaps"}, {"restart_window": 0}, {"restart_window": "60"},
        {"restart_delay": -1}, {"restart_delay_max": float("inf")}, {"restart_delay": True},
    ],
)
def test_option_values_are_checked(bad):
    with pytest.raises(OptionError, match="expected"):
        func().set_options(**bad)


def test_pauses_before_restarts_are_durations_that_do_not_contradict_each_other():
    node = func().set_options(restart_window=timedelta(minutes=5), restart_delay=2, restart_delay_max=30)
    options = node.options
    assert (options.restart_window, options.restart_delay, options.restart_delay_max) == (300.0, 2.0, 30.0)
    with pytest.raises(OptionError, match=r"restart_delay=2 s is longer than restart_delay_max=1 s"):
        func().set_options(restart_delay=2)
    with pytest.raises(OptionError, match=r"restart_delay=2 s is longer than restart_delay_max=1.5 s"):
        node.set_options(restart_delay_max=1.5)
    assert node.options == options, "what is refused changes nothing"


def test_the_engine_can_be_chosen_by_option_or_attribute():
    assert func().set_options(engine="NPU").engine == "NPU"
    node = func()
    assert node.engine == ""
    node.set_attr("engine", "CPU")
    assert node.engine == "CPU"


def test_queues_are_set_by_output_by_node_or_by_attribute_in_this_order():
    node = func(1, 3)
    node.set_attr("_flow_attr_depth", 5)
    node.set_attr("_flow_attr_enqueue_policy", "OVERWRITE")
    assert node.queue(0) == QueueSettings(5, "drop_oldest")
    node.set_options(depth=7)
    assert node.queue(0) == QueueSettings(7, "drop_oldest")
    node.set_queue(0, depth=2, overflow="drop_newest").set_queue(1, overflow="block")
    assert [node.queue(i) for i in range(3)] == [
        QueueSettings(2, "drop_newest"), QueueSettings(7, "block"), QueueSettings(7, "drop_oldest"),
    ]


def test_queue_attributes_count_only_where_they_are_in_force():
    node = func()
    node.set_attr("_flow_attr", False)
    node.set_attr("_flow_attr_depth", 5)
    assert node.queue(0) == QueueSettings()


@pytest.mark.parametrize("bad", [{"depth": -1}, {"overflow": "drop"}, {"depth": True}])
def test_queue_settings_are_checked(bad):
    with pytest.raises(OptionError, match="expected"):
        func().set_queue(0, **bad)
    with pytest.raises(OptionError, match="output from 0 to 0, got 1"):
        func().set_queue(1)


def test_attributes_and_aliases_of_another_type_are_refused():
    node = func()
    for bad in (lambda: node.set_attr(3, 1), lambda: node.set_attr("engine", 1.5), lambda: node.set_alias(3)):
        with pytest.raises(UsageError, match="expected"):
            bad()


def test_data_carries_what_is_known_of_it():
    spec = TensorSpec(DataType.FLOAT, (1, -1))
    assert repr(FlowData("x", spec)) == "FlowData('x', float[1, ?])"
    with pytest.raises(UsageError, match="TensorSpec"):
        FlowData("x", (1, 2))


def test_a_node_takes_process_points_only():
    with pytest.raises(UsageError, match="process point"):
        FlowNode(1, 1).add_process_point("model.onnx")


def test_points_make_nodes_called_like_them():
    assert FuncProcessPoint(builtin="_BuiltIn_CountBatch").fnode(1, 1).name == "_BuiltIn_CountBatch"
    assert func().name == "FlowNode"
    assert "FlowNode" in repr(func())
    assert repr(FuncProcessPoint("", "p")) == "FuncProcessPoint('p')"


def test_several_batches_on_one_input_are_kept_for_the_check():
    node = func()
    node.map_input(0, node.point, 0, [TimeBatch(1), CountBatch(2)])
    assert node.batching(0) == (TimeBatch(1), CountBatch(2))
