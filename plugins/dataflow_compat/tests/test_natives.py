"""The native module of the graph side, as tools use it that were written against it."""

from __future__ import annotations

import numpy as np
import pytest

import dataflow as df
from dataflow import dflow_wrapper as dw

FAILED = 0xFFFFFFFF


def test_a_graph_is_built_fed_and_fetched(folder, models) -> None:
    message, point = dw.load_graph_pp("onnx", str(models / "add_float.onnx"), {}, "", "add")
    assert message.ret_code == 0
    first, second = dw.FlowData("z", 0), dw.FlowData("a", 1)
    node = dw.FlowNode("node", 2, 1).add_pp(point).set_input(0, first).set_input(1, second)
    node.map_input(0, point, 0).map_input(1, point, 1).map_output(0, point, 0)
    node.set_attr("_flow_attr_depth", 4)
    graph = dw.FlowGraph("g").set_inputs([first, second]).set_outputs([(node, [0])])
    graph.set_contains_n_mapping_node(True).set_graphpp_builder_async(True)
    session = dw.DFlowSession({"ge.exec.deviceId": "0"})
    try:
        assert session.add_flow_graph(5, graph, {}).ret_code == 0
        info = dw.FlowInfo(start_time=3, transaction_id=9)
        info.set_user_data(b"abcdef", 3)
        tensors = [dw.Tensor(np.full(3, k, np.float32)) for k in (1, 2)]
        assert session.feed_data(5, [0, 1], tensors, info, 20000).ret_code == 0
        message, got, back = session.fetch_data(5, [0], 20000, True)
        assert (message.ret_code, got[0].native_array().tolist()) == (0, [3.0] * 3)
        assert (back.start_time, back.transaction_id, bytes(back.user_data[:4])) == (3, 9, b"abc\0")
        msgs = [dw.FlowBufferFactory.to_tensor_flow_msg(tensor) for tensor in tensors]
        assert session.feed_flow_msg(5, [1, 0], msgs, 20000).ret_code == 0
        message, found = session.fetch_flow_msg(5, [0], 20000)
        assert (message.ret_code, found[0].get_tensor().get_shape()) == (0, [3])
        wrong = dw.Tensor(np.zeros(2, np.float32))
        assert session.feed_data(5, [0, 1], tensors, info, 20000).ret_code == 145000  # an id that is over
        assert session.feed_data(5, [0, 1], [tensors[0], wrong], dw.FlowInfo(), 20000).ret_code == 0
        assert session.fetch_flow_msg(5, [0], 20000)[1][0].get_ret_code() == 564000
        for call in [(5, [0], tensors, info, 0), (5, [7, 8], tensors, info, 0), (6, [0, 1], tensors, info, 0)]:
            assert session.feed_data(*call).ret_code == FAILED
        assert session.fetch_data(6, [0], 0)[0].ret_code == FAILED
        assert session.fetch_flow_msg(5, [0], 0)[0].ret_code == 207013
    finally:
        session.close()


def test_what_cannot_be_loaded_has_a_code() -> None:
    for framework, file in [("pytorch", "a.pt"), ("onnx", "")]:
        message, point = dw.load_graph_pp(framework, file, {}, "", "x")
        assert (message.ret_code, point) == (145000, None)


def test_a_graph_can_be_a_process_point_that_a_function_invokes() -> None:
    message, point = dw.load_flow_graph_pp(dw.FlowGraph("empty"), "", "pp")
    assert message.ret_code == 0
    function = dw.FunctionPp("f")
    function.set_compile_config("f.json")
    function.set_init_param("dtype", df.DT_INT8.dtype)
    function.set_init_param("size", 5)
    function.add_invoked_closure("key", point)
    assert function.impl.init_params == {"dtype": 2, "size": 5} and list(function.impl.invoked) == ["key"]


def test_messages_are_made_of_tensors_and_bytes() -> None:
    factory = dw.FlowBufferFactory
    assert factory.alloc_tensor_msg([2], df.DT_INT8, 64).get_tensor().get_shape() == [2]
    raw = factory.to_raw_data_flow_msg(b"abc")
    assert (raw.get_msg_type(), bytes(raw.get_raw_data())) == (dw.MSG_TYPE_RAW_MSG, b"abc")
    assert len(factory.alloc_raw_data_msg(5).get_raw_data()) == 5
    assert factory.alloc_empty_data_msg(dw.MSG_TYPE_TENSOR_DATA).get_tensor() is None
    tensor = dw.Tensor(np.array(["a", "b"]))
    assert tensor.get_string_tensor() == [b"a", b"b"] and tensor.clone() is not tensor
    data = dw.Tensor(np.zeros(2, np.int8))
    data.get_writable_data()[:] = b"\1\2"
    assert bytes(data.get_data()) == b"\1\2" and np.asarray(data).tolist() == [1, 2]
    with pytest.raises(TypeError):
        data.get_data()[0] = 3


def test_the_process_is_initialised_by_code(folder) -> None:
    df.finalize()
    assert dw.ge_initialize({1: 2}) == 145000
    assert dw.ge_initialize({"ge.exec.deviceId": "0"}) == 0
    assert df.dataflow._global_options is not None
    assert dw.ge_finalize() == 0
    assert dw.get_dflow_pybind11_build_abi() == "" and dw.init_datatype_manager({}) is None
