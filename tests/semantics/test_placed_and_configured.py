"""Compile configs of models, results of several instances in order, queues that overwrite, the order of outputs.

Sections 6.2 and 12.2 of the notes on the run time; 8 of those on the interface; 3 and 4 of those on files.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

import dataflow as df
from dflow_core.testing.waiting import wait_until
from tests.semantics.rules import Rule, rules, shows
from tests.system.case_support import MODELS

FAILED = 0xFFFFFFFF
LIMIT = 20000


def desc(shape: object = None, kind: object = None, form: object = None) -> dict[str, object]:
    given = {"shape": shape, "data_type": kind, "format": form}
    return {key: value for key, value in given.items() if value is not None}


def configured(folder: Path, content: object, feed: list[float] | None = None) -> object:
    """The code of the first feed of a model with a compile config, or what it gives for numbers."""
    path = folder / "config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    point = df.GraphProcessPoint(df.Framework.ONNX, str(MODELS / "add_dynamic.onnx"), compile_config_path=str(path))
    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    graph = df.FlowGraph([point.fnode(2, 1)(a, b)], {} if feed else {"ge.runFlag": "0"})
    data = np.array(feed or [0.0], np.float32)
    code = graph.feed_data({a: data, b: data})
    if code or feed is None:
        return code
    tensors, _info, code = graph.fetch_data(timeout=LIMIT)
    return code or tensors[0].numpy().tolist()


TWO = [desc([-1]), desc([-1])]


@rules(
    Rule("C3", "An empty config.", {}, 0),
    Rule("C3", "Unknown keys are ignored.", {"color": "red"}, 0),
    Rule("C3", "build_options without any.", {"build_options": {}}, 0),
    Rule("C3", "build_option, as one document spells it.", {"build_option": {"ge.inputShape": "X1:4;X2:4"}}, 0),
    Rule("C3", "An option with a value that is no text.", {"build_options": {"ge.inputShape": 4}}, FAILED),
    Rule("C3", "build_options that are no object.", {"build_options": []}, FAILED),
    Rule("C3", "ge.inputShape by name.", {"build_options": {"ge.inputShape": "X1:4;X2:4"}}, 0),
    Rule("C3", "ge.inputShape by position.", {"build_options": {"ge.inputShape": "4;4"}}, 0),
    Rule("C3", "ge.inputShape with -1 and a range.", {"build_options": {"ge.inputShape": "X1:-1;X2:1~8"}}, 0),
    Rule("C3", "ge.inputShape of an input the model does not have.",
         {"build_options": {"ge.inputShape": "X9:4"}}, FAILED),
    Rule("C3", "ge.inputShape with a range that ends below its begin.",
         {"build_options": {"ge.inputShape": "X1:8~1;X2:4"}}, FAILED),
    Rule("C3", "A description for each input; -1 is a free dimension.", {"inputs_tensor_desc": TWO}, 0),
    Rule("C3", "A description that says nothing.", {"inputs_tensor_desc": [{}, {}]}, 0),
    Rule("C3", "Another number of descriptions than inputs.", {"inputs_tensor_desc": TWO[:1]}, FAILED),
    Rule("C3", "A type nobody knows.", {"inputs_tensor_desc": [desc(kind="DT_FLOAT7"), {}]}, FAILED),
    Rule("C3", "A format.", {"inputs_tensor_desc": [desc(form="ND"), desc(form="ND")]}, 0),
    Rule("C3", "A format nobody knows.", {"inputs_tensor_desc": [desc(form="XY"), {}]}, FAILED),
    Rule("C3", "A shape that is no list.", {"inputs_tensor_desc": [desc(shape=4), {}]}, FAILED),
    Rule("C3", "A file that is no JSON.", "{", FAILED),
    Rule("C3", "A file that holds no object.", [], FAILED),
)
def test_compile_configs_of_models(started: Path, rule: Rule) -> None:
    assert configured(started, rule.given) == rule.expected


@shows(
    Rule("C3", "An empty path means no config; a path to nothing fails.", here="0, then 4294967295"),
    Rule("C3", "A model runs with its config.", here="[2.0, 4.0]"),
)
def test_configs_of_models_that_run(started: Path) -> None:
    assert configured(started, {"inputs_tensor_desc": TWO}, [1.0, 2.0]) == [2.0, 4.0]
    for path, code in (("", 0), ("nowhere.json", FAILED)):
        point = df.GraphProcessPoint(df.Framework.ONNX, str(MODELS / "add_float.onnx"), compile_config_path=path)
        a, b = df.FlowData(), df.FlowData()
        graph = df.FlowGraph([point.fnode(2, 1)(a, b)], {"ge.runFlag": "0"})
        assert graph.feed_data({a: [0.0], b: [0.0]}) == code


# ------------------------------------------------------------------------------------------------ several instances

@df.pyflow
def first_waits(given):
    number, gate = given
    limit = time.monotonic() + 15
    while number == 0 and not os.path.exists(gate) and time.monotonic() < limit:
        time.sleep(0.005)
    return number, df.get_running_instance_id(), df.get_running_instance_num()


@rules(
    Rule("12.2", "Results of several instances come in the order of their ids.", False, (545601, [0, 1])),
    Rule("12.2", "In a graph with n-mapping nodes they come as they are ready.", True, ([1], [0])),
)
def test_the_order_of_results_of_several_instances(started: Path, rule: Rule) -> None:
    data, gate = df.FlowData(), str(started / f"gate-{rule.given}")
    graph = df.FlowGraph(
        [first_waits.fnode().set_alias(f"waits {rule.given}")(data)],
        {"ge.experiment.data_flow_deploy_info_path": str(started / "two.json")},
    )
    graph.set_contains_n_mapping_node(bool(rule.given))
    (started / "two.json").write_text(json.dumps(
        {"batch_deploy_info": [{"flow_node_list": [f"waits {rule.given}"], "logic_device_list": "0:0:0,0:0:0"}]}
    ))
    for number in range(2):
        assert graph.feed({data: (number, gate)}) == 0
    early, late = rule.expected  # type: ignore[misc]
    if rule.given:
        assert graph.fetch(timeout=LIMIT) == ([(1, 1, 2)], 0)
    else:
        assert graph.fetch(timeout=300) == ([], early)
    Path(gate).touch()
    assert [graph.fetch(timeout=LIMIT)[0][0][0] for _ in late] == late


# ------------------------------------------------------------------------------------------------------- overwriting

@df.pyflow
def echo(x):
    return x


@shows(
    Rule("6.1", "OVERWRITE: the writer never waits; the oldest messages give way.", here="the newest two of ten"),
)
def test_a_queue_that_overwrites(started: Path) -> None:
    data, node = df.FlowData(), echo.fnode()
    node.set_attr("_flow_attr_depth", 2)
    node.set_attr("_flow_attr_enqueue_policy", "OVERWRITE")
    graph = df.FlowGraph([node(data)])
    for number in range(10):
        assert graph.feed({data: number}, timeout=LIMIT) == 0
    running = graph._runner._running
    assert running is not None
    wait_until(lambda: next(edge.sent for edge in running.stats().edges if "fetch" in edge.name) == 10)
    assert [graph.fetch(timeout=LIMIT) for _ in range(2)] == [([8], 0), ([9], 0)]
    assert graph.fetch(timeout=0) == ([], 207013)


# ------------------------------------------------------------------------------------------------ the order of outputs

@rules(
    Rule("P8.1", "Outputs are grouped by node and sorted inside a group; each has a position of its own.",
         [(0, 2), (0, 1), (0, 0), (0, 0), (1, 2), (1, 0), (0, 0)], [4, 3, 0, 1, 6, 5, 2]),
    Rule("P8.1", "One output.", [(0, 1)], [0]),
    Rule("P8.1", "Groups come in the order in which their nodes appear.", [(1, 0), (0, 0), (1, 1)], [0, 2, 1]),
)
def test_positions_of_outputs(started: Path, rule: Rule) -> None:
    data = df.FlowData()
    outputs = [df.FlowNode(1, 3)(data), df.FlowNode(1, 3)(data)]
    graph = df.FlowGraph([outputs[node][index] for node, index in rule.given])  # type: ignore[attr-defined, index]
    assert graph._output_idx_mapping == rule.expected


@rules(
    Rule("P8.1", "Inputs are numbered in the order of their names, as texts.",
         ["d10", "d2", "d1"], ["d1", "d10", "d2"]),
    Rule("P8.1", "Capital letters come first.", ["b", "B", "a"], ["B", "a", "b"]),
)
def test_positions_of_inputs(started: Path, rule: Rule) -> None:
    df.finalize()
    df.init({})
    datas = [df.FlowData(name=name) for name in rule.given]  # type: ignore[attr-defined]
    graph = df.FlowGraph([df.FlowNode(3, 1)(*datas)])
    assert [data.name for data in graph._inputs] == rule.expected


@pytest.mark.parametrize("how", ["graph", "init"])
@shows(Rule("C9", "Options are looked up at the graph, then at the session.", here="ge.runFlag in both places"))
def test_where_options_are_looked_up(started: Path, how: str) -> None:
    df.finalize()
    df.init({"ge.runFlag": "0"} if how == "init" else {"ge.runFlag": "1"})
    data = df.FlowData()
    graph = df.FlowGraph([echo.fnode()(data)], {"ge.runFlag": "0"} if how == "graph" else {})
    assert graph.feed({data: 1}) == 0 and graph.fetch(timeout=0) == ([], FAILED)
