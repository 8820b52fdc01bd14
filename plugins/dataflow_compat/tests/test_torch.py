"""What `@npu_model` refuses and how tensors of torch travel; with torch where it is installed."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import dataflow as df
from dataflow.data_type import DT_BF16, DT_STRING
from dataflow.flow_func import flowfunc_wrapper as fw
from dataflow.plugin.torch import torch_plugin
from dataflow.utils.utils import get_msg_type_register
from dflow_core.message import MsgInfo, encode

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed: pip install torch")


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed")
def test_without_torch_the_decorator_says_so() -> None:
    with pytest.raises(ImportError):
        df.npu_model(lambda x: x)


def test_options_belong_to_functions_or_classes() -> None:
    for obj, options in [(lambda x: x, {"optimize_level": 1}), (int, {"stream_input": "Queue"}), (5, {})]:
        with pytest.raises(TypeError):
            torch_plugin._make_npu_model(obj, options)


@pytest.mark.parametrize("options", [{"optimize_level": 3}, {"optimize_level": "2"}, {"optimize_level": 2}])
def test_levels_are_checked_when_nodes_are_made(folder, options) -> None:
    with pytest.raises(TypeError):
        torch_plugin._make_npu_model(type("Net", (), {}), options).fnode()


@needs_torch
@pytest.mark.timeout(100)
def test_tensors_travel_and_share_memory() -> None:
    import torch

    for dtype in (df.DT_FLOAT, df.DT_INT64, df.DT_BOOL, df.DT_UINT16, DT_BF16):
        found = torch_plugin._convert_df_to_torch_tensor_dtype(dtype)
        assert torch_plugin._convert_torch_to_df_tensor_dtype(found) is dtype
        tensor = torch.ones([2, 3]).to(found)
        data = torch_plugin._serialize_with_torch_tensor(tensor)
        assert torch.equal(torch_plugin._deserialize_with_torch_tensor(memoryview(data)), tensor)
        assert torch.equal(torch_plugin.to_torch(torch_plugin.from_torch(tensor)._impl), tensor)
    for wrong in (DT_STRING, torch.complex64):
        with pytest.raises(ValueError, match=r"type|for"):
            (torch_plugin._convert_df_to_torch_tensor_dtype if wrong is DT_STRING
             else torch_plugin._convert_torch_to_df_tensor_dtype)(wrong)
    with pytest.raises(TypeError):
        torch_plugin._serialize_with_torch_tensor(np.ones(2))
    empty = torch.empty([0, 2])
    data = memoryview(torch_plugin._serialize_with_torch_tensor(empty))
    assert torch_plugin._deserialize_with_torch_tensor(data).shape == (0, 2)
    array = np.zeros(3)
    array.flags.writeable = False
    shared = torch_plugin.to_torch(array)
    assert shared.data_ptr() == array.__array_interface__["data"][0]
    torch_plugin._register_torch_tensor()
    assert get_msg_type_register().get_msg_type(torch.Tensor) == 1023
    # what calls do with messages
    msg = fw.FlowMsg(encode(np.ones(2), MsgInfo()))
    assert torch_plugin._prepare_inputs([msg], 2)[0] == 564000
    assert torch_plugin._prepare_inputs([fw.FlowMsg()], 1)[0] == 164000
    code, tensors = torch_plugin._prepare_inputs([msg], 1)
    assert code == 0 and torch_plugin._check_torch_output(tensors[0])
    context = fw.MetaRunContext()
    assert torch_plugin._prepare_outputs(context, (tensors[0], 5), 2) == (564000, [])
    code, msgs = torch_plugin._prepare_outputs(context, tensors[0], 1)
    assert code == 0 and msgs[0].get_tensor().native_array().tolist() == [1, 1]
