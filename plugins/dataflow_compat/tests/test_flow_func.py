"""The side of hand-written functions, without an executor."""

from __future__ import annotations

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from dataflow.flow_func import flow_func
from dataflow.flow_func import flowfunc_wrapper as fw
from dataflow.flow_func.func_register import FlowFuncInfos, FlowFuncRegister
from dataflow.tensor_descs import RuntimeTensorDesc, RuntimeTensorDescMsgProcessor
from dflow_core.message import MsgInfo, encode
from dflow_core.spi import FuncParams
from dflow_core.types import DataType
from dflow_core.udf import MetaParams


@pytest.fixture
def context() -> ff.MetaRunContext:
    return ff.MetaRunContext(fw.MetaRunContext())


def test_messages_are_made_and_filled(context) -> None:
    msg = context.alloc_tensor_msg([2, 3], df.DT_INT16)
    tensor = msg.get_tensor()
    tensor.numpy()[...] = 7
    assert (tensor.get_shape(), tensor.get_data_type()) == ([2, 3], np.int16)
    assert msg.get_msg_type() == ff.MSG_TYPE_TENSOR_DATA
    assert context.alloc_tensor_msg([1], np.float64).get_tensor().get_data_size() == 8
    raw = context.alloc_raw_data_msg(3)
    raw.get_raw_data()[:] = b"abc"
    assert (raw.get_msg_type(), bytes(raw.get_raw_data()), raw.get_tensor()) == (ff.MSG_TYPE_RAW_MSG, b"abc", None)
    assert context.alloc_empty_data_msg().get_tensor() is None
    assert context.to_flow_msg(tensor).get_tensor().numpy()[0, 0] == 7
    with pytest.raises(TypeError):
        context.alloc_tensor_msg([1], np.complex64)
    with pytest.raises(df.DfException):
        context.alloc_tensor_msg([1], df.DT_INT8, 7)


def test_a_head_can_be_read_and_set(context) -> None:
    msg = context.alloc_empty_data_msg()
    for name, value in [("ret_code", 9900001), ("start_time", 1), ("end_time", 2), ("flow_flags", 3),
                        ("transaction_id", 4), ("msg_type", 2000)]:
        assert getattr(msg, f"set_{name}")(value) is None
        assert getattr(msg, f"get_{name}")() == value
    assert msg.set_route_label(5) is None
    assert repr(msg) == "FlowMsg(msg_type=2000, tensor=..., ret_code=9900001, start_time=1, end_time=2, flow_flags=3)"


def test_outputs_are_messages_or_arrays(context) -> None:
    msg = context.alloc_tensor_msg([1], df.DT_INT8)
    assert context.set_output(0, msg) == 0
    assert context.set_output(0, msg.inner) == 0
    assert context.set_output(0, np.zeros(3)) == 0
    for wrong in [5, np.zeros(1, np.complex64)]:
        with pytest.raises(TypeError):
            context.set_output(0, wrong)
    assert context.get_exception() == (False, 0, 0)
    assert context.get_user_data(3, 1) == bytearray(3)
    assert context.get_user_data(65) == bytearray(64)
    assert repr(context) == "MetaRunContext()"


def test_parameters_are_read_with_a_code() -> None:
    attrs = {"i": 3, "b": [True], "t": DataType.INT16, "tt": [DataType.INT8], "m": [[1], [2]], "f": 0.5, "s": "x"}
    params = ff.PyMetaParams(fw.MetaParams(MetaParams(FuncParams("n", 1, 4, "cpu:2", 1, 3, 2, attrs))))
    assert (params.get_attr_int("i"), params.get_attr_int("none"), params.get_attr_int("s")) == (
        (0, 3), (164001, -1), (164002, -1))
    assert params.get_attr_bool_list("b") == (0, [True]) and params.get_attr_int_list_list("m") == (0, [[1], [2]])
    assert params.get_attr_tensor_dtype("t") == (0, np.int16) and params.get_attr_tensor_dtype("i") == (164001, None)
    assert params.get_attr_tensor_dtype_list("tt") == (0, [np.int8])
    assert params.get_attr_float("f") == (0, 0.5) and params.get_attr_str("s") == (0, "x")
    assert (params.get_name(), params.get_input_num(), params.get_output_num()) == ("n", 3, 2)
    assert (params.get_running_device_id(), params.get_running_instance_id()) == (2, 1)
    assert params.get_running_instance_num() == 4
    assert fw.MetaParams().get_int64("x") == (164001, -1)


class Hand:
    @ff.init_wrapper()
    def init_flow_func(self, params):
        assert isinstance(params, ff.PyMetaParams)
        return ff.FLOW_FUNC_SUCCESS

    @ff.proc_wrapper("i0,i1,o0")
    def work(self, context, msgs):
        assert isinstance(context, ff.MetaRunContext)
        return context.set_output(0, msgs[0].get_tensor().numpy() + msgs[1].get_tensor().numpy())


def test_decorated_methods_take_native_objects(capsys) -> None:
    hand, one = Hand(), fw.FlowMsg(encode(np.ones(2), MsgInfo()))
    assert hand.init_flow_func(fw.MetaParams()) == 0
    assert hand.work(fw.MetaRunContext(), [one, one]) == 0
    assert hand.work(fw.MetaRunContext(), [one]) == 564000
    assert "IndexError" in capsys.readouterr().err
    assert FlowFuncRegister.get_flow_func(Hand.__module__, "Hand") == {"work": "i0,i1,o0"}
    assert FlowFuncRegister.get_flow_func("no", "one") is None


def test_a_class_without_functions_is_no_process_point(folder) -> None:
    with pytest.raises(df.DfException) as error:
        df.FuncProcessPoint(py_func=int)
    assert error.value.error_code == 564000
    with pytest.raises(df.DfException):
        ff.proc_wrapper("x1")(lambda self, context, msgs: 0)


def test_what_is_known_of_functions_is_kept() -> None:
    infos = FlowFuncInfos()
    infos.add_func_params("f", "i0,o0")
    infos.add_running_resources_info("cpu", 2)
    infos.set_func_object(5)
    infos.set_env_hook_func(print)
    infos.set_visible_device_enable(True)
    FlowFuncRegister.register_flow_func_infos("m", "C", infos)
    found = FlowFuncRegister.get_flow_func_infos("m", "C")
    assert found.get_all_func_params() == {"f": "i0,o0"}
    assert found.get_running_resources_info() == [{"type": "cpu", "num": 2}]
    assert (found.get_func_object(), found.get_env_hook_func(), found.get_visible_device_enable()) == (5, print, True)


def test_balance_has_an_inner_config() -> None:
    config = ff.BalanceConfig(2, 3, ff.AffinityPolicy.ROW_AFFINITY)
    config.set_data_pos([(0, 1), (1, 2)])
    inner = config.get_inner_config().core
    assert (inner.row_num, inner.col_num, inner.positions) == (2, 3, ((0, 1), (1, 2)))
    assert inner.affinity_policy is ff.AffinityPolicy.ROW_AFFINITY.inner_type
    assert ff.AffinityPolicy.COL_AFFINITY.inner_type.value == 2


def test_the_logger_takes_members_only(monkeypatch) -> None:
    monkeypatch.setenv("ASCEND_GLOBAL_LOG_LEVEL", "0")
    assert ff.logger.is_log_enable(flow_func.DEBUG_LOG, flow_func.DEBUG)
    assert not ff.logger.is_log_enable(0, 0)
    assert ff.logger.get_log_header().startswith("[tid:")


def test_a_descriptor_has_1024_bytes() -> None:
    desc = RuntimeTensorDesc()
    desc.address, desc.dtype, desc.size, desc.shape = 5, 9, 48, list(range(40))
    found = RuntimeTensorDesc.from_memory(desc.to_bytes())
    assert (len(desc.to_bytes()), found.address, found.dtype, found.size) == (1024, 5, 9, 48)
    assert found.shape == list(range(32))
    with pytest.raises(RuntimeError):
        RuntimeTensorDesc.from_memory(b"short")


def test_descriptors_travel_in_raw_messages() -> None:
    desc = RuntimeTensorDesc()
    desc.shape = [2]
    msg = RuntimeTensorDescMsgProcessor.create_runtime_tensor_desc_msg(fw.MetaRunContext(), [desc, desc])
    code, found = RuntimeTensorDescMsgProcessor.get_runtime_tensor_descs(msg, 2)
    assert (code, [d.shape for d in found]) == (0, [[2], [2]])
    assert RuntimeTensorDescMsgProcessor.get_runtime_tensor_descs(msg, 3) == (164000, [])
