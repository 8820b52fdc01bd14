"""Graphs as they are built: names, wiring, arguments, the order of outputs and inputs. Nothing is started."""

from __future__ import annotations

import json

import pytest

import dataflow as df
from dataflow.settings import translated


def node(inputs: int = 1, outputs: int = 1, name: str | None = None) -> df.FlowNode:
    return df.FlowNode(inputs, outputs, name)


def test_a_graph_needs_init(folder) -> None:
    df.finalize()
    output = node()(df.FlowData())
    with pytest.raises(df.DfException) as error:
        df.FlowGraph([output])
    assert error.value.error_code == 145001
    assert df.dataflow._global_options is None and df.dataflow._global_context is None


def test_init_keeps_the_dict_of_the_first_call(folder) -> None:
    df.finalize()
    options = {"ge.exec.deviceId": "0", "ge.graphRunMode": "1"}
    df.init(options)
    df.init({"ge.exec.deviceId": "1"})
    assert df.dataflow._global_options is options
    assert options["ge.graphRunMode"] == "0"
    assert df.dataflow._global_context is None
    df.FlowGraph([node()(df.FlowData())])
    assert df.dataflow._global_context.session is not None
    df.finalize()
    df.finalize()
    assert df.dataflow._global_options is None


@pytest.mark.parametrize("options", [None, [], {1: "a"}, {"a": 1}])
def test_options_are_a_dict_of_texts(options) -> None:
    with pytest.raises(df.DfException) as error:
        df.init(options)
    assert error.value.error_code == 145000


def test_names_have_two_families(started) -> None:
    assert [df.FlowData().name, df.FlowData().name, df.FlowData(name="x").name] == ["FlowData", "FlowData_1", "x"]
    assert [node().name, node().name, node(name="x").name] == ["FlowNode", "FlowNode_1", "x"]
    assert df.FuncProcessPoint("a.json").name == "FuncProcessPoint"
    df.finalize()
    assert df.FlowData().name == "FlowData"


def test_outputs_are_grouped_by_node(started) -> None:
    data = df.FlowData()
    n0, n1 = node(1, 3), node(1, 3)
    a, b = n0(data), n1(data)
    graph = df.FlowGraph([a[2], a[1], a[0], a[0], b[2], b[0]])
    assert graph._output_idx_mapping == [3, 2, 0, 1, 5, 4]


def test_inputs_are_sorted_by_name(started) -> None:
    datas = [df.FlowData(name=name) for name in ("d10", "d2", "d1")]
    graph = df.FlowGraph([node(3)(*datas)])
    assert [data.name for data in graph._inputs] == ["d1", "d10", "d2"]


def test_wiring_says_what_is_wrong(started) -> None:
    data, first = df.FlowData(), node(2, 2)
    outputs = first(data, data)
    assert isinstance(outputs, tuple) and outputs[1].node is first and outputs[1].index == 1
    assert isinstance(node()(outputs[0]), df.FlowOutput) and node(1, 0)(data) is None
    for wrong in [(data,), (data, outputs[0]), (data, 5)]:
        with pytest.raises(df.DfException):
            first(*wrong)
    with pytest.raises(AttributeError):
        df.FlowGraph([df.FlowOutput(node(), 0)])


@pytest.mark.parametrize("make", [
    lambda: node("1"), lambda: node(1, None), lambda: df.FlowNode(1, 1, 5), lambda: node().set_attr(1, 1),
    lambda: node().set_attr("_flow_attr_depth", 1.5), lambda: df.FuncProcessPoint(5),
    lambda: df.FuncProcessPoint("a", 5),
    lambda: df.FuncProcessPoint("a.json").set_init_param(1, 1),
    lambda: df.FuncProcessPoint("a.json").set_init_param("a", {}),
    lambda: df.FuncProcessPoint("a.json").set_init_param("a", 2**63), lambda: df.FlowGraphProcessPoint(None),
])
def test_type_errors(make) -> None:
    with pytest.raises(TypeError):
        make()


@pytest.mark.parametrize("make", [
    lambda: df.FlowData(int), lambda: df.FlowData(schema=5), lambda: node().add_process_point(None),
    lambda: df.GraphProcessPoint("onnx", "a.onnx"), lambda: df.GraphProcessPoint(df.Framework.ONNX, "a", {"a": 1}),
    lambda: df.TimeBatch("1"), lambda: df.CountBatch(1, padding=300), lambda: df.FlowNode(-1, 1),
    lambda: node().map_input(1, df.FuncProcessPoint("a.json"), 0), lambda: node().map_input(0, None, 0),
    lambda: node().map_input(0, df.FuncProcessPoint("a.json"), 0, [1]),
    lambda: node().map_output(1, df.FuncProcessPoint("a.json"), 0),
])
def test_argument_errors(make) -> None:
    with pytest.raises(df.DfException) as error:
        make()
    assert error.value.error_code == 145000


def test_graphs_check_their_arguments(started) -> None:
    output = node()(df.FlowData())
    for args in [(output,), ([output, 1],), ([output], {"a": 1})]:
        with pytest.raises(df.DfException) as error:
            df.FlowGraph(*args)
        assert error.value.error_code == 145000


def test_a_node_can_be_told_more(started) -> None:
    one, pp = node(2, 1), df.FuncProcessPoint("a.json")
    assert one.add_process_point(pp) is None
    assert one.map_input(1, pp, 0, [df.CountBatch(2, timeout=500)]) is None
    assert one._impl.batching(1)[0].timeout == 0.5
    with pytest.raises(TypeError):
        one.map_input(-1, pp, 0)
    assert one.map_output(0, pp, 0) is None
    assert one.set_balance_scatter() is None and one.set_balance_gather() is None
    assert one._impl.attrs["_balance_scatter"] is True and "_balance_gather" not in one._impl.attrs
    assert one.set_attr("_flow_attr_depth", 4) is None and one._impl.queue(0).depth == 4
    one.set_attr("_no_such_attribute", True)
    assert one.set_alias("second") is one and one.alias == "second"
    with pytest.raises(ValueError, match="already used"):
        node().set_alias("second")
    assert one.set_alias(one.name).alias == one.name


def test_parameters_have_the_types_of_the_interface() -> None:
    pp = df.FuncProcessPoint("a.json")
    values = {"f": 0.1, "i": 3, "b": [True], "t": df.DT_INT16, "tt": [df.DT_INT8], "m": [[1], [2]], "s": ["a"]}
    for name, value in values.items():
        pp.set_init_param(name, value)
    stored = pp._impl.init_params
    assert stored["f"] == pytest.approx(0.1, abs=1e-8) and stored["f"] != 0.1
    assert [int(stored["t"]), int(stored["tt"][0]), stored["m"], stored["b"]] == [6, 2, [[1], [2]], [True]]


def test_a_deploy_template_lists_every_node(started, capsys) -> None:
    data = df.FlowData()
    first, second = node(name="first"), node(name="second").set_alias("zweiter")
    graph = df.FlowGraph([second(first(data))])
    df.utils.generate_deploy_template(graph, "deploy.json")
    content = json.loads((started / "deploy.json").read_text(encoding="utf-8"))
    assert content == {"batch_deploy_info": [
        {"flow_node_list": [name], "logic_device_list": "0:0:0:0"} for name in ("zweiter", "first")
    ]}
    assert "deploy.json" in capsys.readouterr().out


def test_options_are_sorted_into_those_that_count(folder, capsys) -> None:
    given = {"ge.exec.dumpMode": "all", "ge.graph_key": "k", "never.heard": "1", "ge.runFlag": "0"}
    assert translated(given, "graph") == {"ge.graph_key": "k"}


def test_what_cannot_be_built_is_told_by_the_first_feed(started, capsys) -> None:
    data, bad, pp = df.FlowData(), node(), df.FuncProcessPoint("a.json")
    bad.add_process_point(pp)
    bad.map_input(0, pp, 0, [df.CountBatch(0)])
    graph = df.FlowGraph([bad(data)])
    assert graph.fetch_data(timeout=0)[2] == 0xFFFFFFFF
    assert graph.fetch(timeout=0) == ([], 0xFFFFFFFF)
    assert graph.feed_data({data: 1}) == 0xFFFFFFFF
    assert "batch_size" in capsys.readouterr().out
    with pytest.raises(df.DfException):
        graph.set_contains_n_mapping_node(True)


def test_a_graph_without_process_points_is_told_by_the_first_feed(started, capsys) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([node()(data)])
    assert graph.feed_data({data: 1}, "no info") == 145000
    assert graph.feed_data({data: 1}) == 0xFFFFFFFF
    assert "process point" in capsys.readouterr().out


def test_a_model_that_is_to_be_compiled_only_runs_nothing(started, models) -> None:
    df.finalize()
    df.init({"ge.runFlag": "0"})
    x, y = df.FlowData(), df.FlowData()
    add = df.GraphProcessPoint(df.Framework.ONNX, str(models / "add_float.onnx")).fnode(2, 1)
    graph = df.FlowGraph([add(x, y)])
    assert graph.feed_data({x: [1.0, 2.0], y: [1.0, 2.0]}) == 0
    assert graph.fetch_data(timeout=0) [2] == 0xFFFFFFFF


def test_a_function_is_given_what_it_invokes_under_a_key(started) -> None:
    function, data = df.FuncProcessPoint("a.json"), df.FlowData()
    model = df.GraphProcessPoint(df.Framework.ONNX, "a.onnx")
    inner = df.FlowGraphProcessPoint(df.FlowGraph([model.fnode(1, 1)(data)]))
    assert function.add_invoked_closure("one", model) is None
    assert function.add_invoked_closure("two", graph_pp=inner) is None
    assert list(function._impl.invoked) == ["one", "two"]
    for args in [("one", model), ("three", function), ("three",), (3, model)]:
        with pytest.raises(df.DfException):
            function.add_invoked_closure(*args)
