"""Tensors: what they are made of, what they refuse, and with which code."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dataflow as df
from dataflow.data_type import DT_BF16
from dataflow.flow_func import flowfunc_wrapper as fw
from dflow_core.message import MsgInfo, encode

FLOATS = df.TensorDesc(df.DT_FLOAT, [2])


def code_of(error: pytest.ExceptionInfo[df.DfException]) -> int:
    return error.value.error_code


@pytest.mark.parametrize(
    ("dtype", "shape", "code"), [(np.float32, [1], 145022), (df.DT_INT8, 3, 145021), (df.DT_INT8, [1, "2"], 145021)]
)
def test_a_description_checks_its_arguments(dtype, shape, code) -> None:
    with pytest.raises(df.DfException) as error:
        df.TensorDesc(dtype, shape)
    assert code_of(error) == code


def test_descriptions_are_compared_by_content_and_are_no_keys() -> None:
    assert df.TensorDesc(df.DT_INT64, (1, 2)) == df.TensorDesc(df.DT_INT64, [1, 2])
    assert df.TensorDesc(df.DT_INT64, [1]) != df.TensorDesc(df.DT_INT32, [1])
    assert df.TensorDesc(df.DT_INT64, [1]) != "TensorDesc"
    assert str(df.TensorDesc(df.DT_INT64, (1, 2))) == "TensorDesc(dtype=DT_INT64, shape=[1, 2])"
    with pytest.raises(TypeError):
        hash(df.TensorDesc(df.DT_INT64, [1]))


def test_a_tensor_is_a_copy_with_a_description() -> None:
    array = np.arange(2, dtype=np.float32)
    tensor = df.Tensor(array)
    array[0] = 9
    assert tensor.numpy().tolist() == [0, 1]
    assert tensor._tensor_desc == FLOATS
    assert str(tensor) == "Tensor([0. 1.], tensor_desc=TensorDesc(dtype=DT_FLOAT, shape=[2]))"


def test_a_view_can_be_written_and_a_copy_cannot_reach_the_tensor() -> None:
    tensor = df.Tensor([1, 2])
    tensor.numpy()[0] = 5
    tensor.numpy(copy=True)[1] = 7
    assert tensor.numpy().tolist() == [5, 2]


def test_a_tensor_of_a_tensor_is_another_one() -> None:
    first = df.Tensor(np.zeros(2, np.float32))
    second, third = df.Tensor(first), df.Tensor(first, tensor_desc=df.TensorDesc(df.DT_INT8, [2]))
    second.numpy()[0] = 1
    assert first.numpy()[0] == 0
    assert third.numpy().dtype == np.int8


@pytest.mark.parametrize(
    ("data", "desc", "code"),
    [
        ([1.0], FLOATS, 145021),
        ([1.0, 2.0], df.TensorDesc(DT_BF16, [2]), 145022),
        ([184467440737095516150], None, 145022),
        ({"1": 1}, None, 145022),
        (np.zeros((4, 4))[:, 1], None, 145000),
    ],
)
def test_what_is_no_tensor_is_refused(data, desc, code) -> None:
    with pytest.raises(df.DfException) as error:
        df.Tensor(data, tensor_desc=desc)
    assert code_of(error) == code


def test_another_element_type_is_converted_and_a_failed_conversion_is_a_value_error() -> None:
    assert df.Tensor([1, 2], tensor_desc=FLOATS).numpy().dtype == np.float32
    with pytest.raises(ValueError, match="could not convert"):
        df.Tensor(["a", "b"], tensor_desc=FLOATS)


@pytest.mark.parametrize("texts", [np.array(["a", "bc"]), np.array([b"a", b"bc"])])
def test_texts_come_out_as_copies_only(texts) -> None:
    tensor = df.Tensor(texts)
    assert tensor.numpy(copy=True).tolist() == ["a", "bc"]
    assert tensor._tensor_desc == df.TensorDesc(df.DT_STRING, [2])
    with pytest.raises(df.DfException):
        tensor.numpy()
    assert df.Tensor(texts, tensor_desc=df.TensorDesc(df.DT_STRING, [2])).numpy(True).tolist() == ["a", "bc"]


@pytest.mark.parametrize("getter", ["get_shape", "get_data_type", "get_data_size", "get_element_cnt"])
def test_getters_are_for_functions(getter: str) -> None:
    inside = df.Tensor.over(np.zeros((2, 5), np.uint32), in_function=True)
    assert getattr(inside, getter)() in ([2, 5], np.uint32, 40, 10)
    with pytest.raises(df.DfException):
        getattr(df.Tensor([1]), getter)()


def test_a_tensor_of_a_function_takes_another_shape_in_place() -> None:
    inside = df.Tensor.over(np.zeros((2, 5), np.uint32), in_function=True)
    assert inside.reshape([5, 2]) == 0
    assert inside.get_shape() == [5, 2]
    assert inside.reshape([5, 2, 5]) == 164000
    assert inside.reshape([1] * 33) == 164000
    with pytest.raises(df.DfException):
        df.Tensor([1]).reshape([1])


def test_a_native_tensor_is_wrapped() -> None:
    native = fw.Tensor(np.arange(10, dtype=np.uint32).reshape(2, 5))
    assert df.Tensor(native).numpy().tolist() == native.native_array().tolist()
    assert repr(native) == "Tensor(shape=[2, 5, ], data_type=8, data_size=40, element_cnt=10, data=...)"


def test_a_native_message_is_wrapped() -> None:
    assert df.Tensor(fw.FlowMsg(encode(np.arange(3), MsgInfo()))).numpy().tolist() == [0, 1, 2]
    with pytest.raises(df.DfException):
        df.Tensor(fw.FlowMsg())


def test_a_tensor_travels() -> None:
    assert pickle.loads(pickle.dumps(df.Tensor([1, 2]))).numpy().tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [df.DT_INT16, np.int16])
def test_memory_can_be_had_to_fill(dtype) -> None:
    tensor = df.alloc_tensor([2, 3], dtype)
    tensor.numpy()[...] = 4
    assert tensor.numpy().tolist() == [[4] * 3] * 2
    assert tensor._tensor_desc == df.TensorDesc(df.DT_INT16, [2, 3])


@pytest.mark.parametrize(("shape", "dtype", "align"), [([1] * 33, np.int8, 64), ([-1], np.int8, 64), ([1], np.int8, 7)])
def test_memory_that_cannot_be_is_refused(shape, dtype, align) -> None:
    with pytest.raises(df.DfException):
        df.alloc_tensor(shape, dtype, align)


@pytest.mark.parametrize("dtype", [df.DT_STRING, DT_BF16, np.complex64])
def test_memory_has_an_element_type(dtype) -> None:
    with pytest.raises(TypeError):
        df.alloc_tensor([1], dtype)
