"""The low-level face of user functions: hand-written classes with MetaParams, MetaRunContext and messages."""

from __future__ import annotations

import numpy as np
import pytest

import dflow_core as df
from dflow_core.message import FlowMsg
from dflow_core.spi import FuncParams
from dflow_core.types import DataType
from dflow_core.udf import MetaParams, MetaRunContext

ATTRS = {
    "i": 3, "b": True, "f": 0.5, "s": "x", "is": [1, 2], "iss": [[1], [2, 3]], "bs": [True], "fs": [0.5], "ss": ["a"],
    "d": DataType.INT8, "ds": [DataType.FLOAT, DataType.BOOL],
}


@pytest.fixture
def params() -> MetaParams:
    return MetaParams(FuncParams("node", 1, 3, "cpu:2", 1, 2, 4, ATTRS), "/somewhere")


def test_facts_of_the_node(params: MetaParams) -> None:
    assert (params.get_name(), params.get_input_num(), params.get_output_num()) == ("node", 2, 4)
    assert (params.get_running_device_id(), params.get_running_instance_id()) == (2, 1)
    assert (params.get_running_instance_num(), params.get_work_path()) == (3, "/somewhere")


@pytest.mark.parametrize(("getter", "name", "value", "failure"), [
    ("get_attr_int", "i", 3, -1), ("get_attr_bool", "b", True, False), ("get_attr_float", "f", 0.5, 0.0),
    ("get_attr_str", "s", "x", ""), ("get_attr_int_list", "is", [1, 2], []), ("get_attr_bool_list", "bs", [True], []),
    ("get_attr_int_list_list", "iss", [[1], [2, 3]], []), ("get_attr_float_list", "fs", [0.5], []),
    ("get_attr_str_list", "ss", ["a"], []), ("get_attr_tensor_dtype", "d", np.int8, None),
    ("get_attr_tensor_dtype_list", "ds", [np.float32, np.bool_], []),
])
def test_parameters_come_with_a_code(
    params: MetaParams, getter: str, name: str, value: object, failure: object
) -> None:
    """Codes of python-api.md section 12.5; a missing or wrong data type is always 'missing'."""
    get = getattr(params, getter)
    assert get(name) == (0, value)
    assert get("missing") == (164001, failure)
    wrong = 164001 if "dtype" in getter else 164002
    assert get("s" if name != "s" else "i") == (wrong, failure)


def test_messages_of_a_context() -> None:
    from dflow_core.executor.node.call_context import CallContext
    from dflow_core.message import HeapBlock, MsgInfo, encode
    from dflow_core.types import FuncSpec

    sent: list[FlowMsg] = []
    head = encode(np.arange(4), MsgInfo(trans_id=9, user_data=b"u" * 64))
    spec = FuncSpec("f", (0,), (0,))
    context = CallContext(spec, head, lambda _, msg: sent.append(msg), HeapBlock, owner=None)  # type: ignore[arg-type]
    meta = MetaRunContext(context, [head])
    assert meta.get_transaction_id() == 9 and meta.get_user_data(3, 61) == b"uuu"
    for size, offset in ((0, 0), (65, 0), (1, 64), (1, -1)):
        with pytest.raises(df.UsageError, match="64 bytes"):
            meta.get_user_data(size, offset)
    with pytest.raises(df.UsageError, match="align"):
        meta.alloc_tensor_msg((1,), np.int8, align=7)
    other = meta.to_flow_msg(np.array([5], np.int32))
    other.set_transaction_id(12)
    other.set_ret_code(9900002)
    assert meta.set_output(0, other) == 0 and meta.set_output(0, None) == 0
    assert meta.set_multi_outputs(0, [np.array(1), meta.alloc_empty_data_msg()]) == 0
    context.finish()
    assert sent[0].info.trans_id == 12 and sent[0].info.ret_code == 9900002
    assert sent[2].is_null and len(sent) == 4


def test_what_is_set_on_an_input_that_is_sent_on_is_of_that_message_alone() -> None:
    class Marks:
        @df.proc_wrapper("i0,o0,o1")
        def go(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
            array = inputs[0].get_tensor()
            assert array is not None
            inputs[0].set_ret_code(9900003 if array[0] < 0 else 0)
            inputs[0].set_start_time(7)
            context.set_output(0, inputs[0])
            return context.set_output(1, array)

    outputs = df.FuncProcessPoint(py_func=Marks).fnode(1, 2)(df.FlowData("x"))
    with df.FlowGraph(outputs, mode="inline") as graph:
        graph.feed({"x": np.array([1])}, info=df.FeedInfo(start_time=3))
        messages = graph.running.client.fetch(5).messages
        assert [msg and msg.get_start_time() for msg in messages] == [7, 3]
        with pytest.raises(df.NodeError) as caught:
            graph(np.array([-1]))
        assert caught.value.ret_code == 9900003
