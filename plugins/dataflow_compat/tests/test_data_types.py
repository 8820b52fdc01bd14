"""Element types: numbers, names, identity, and what numpy calls them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dataflow as df
from dataflow import data_type as dt
from dataflow.data_wrapper import DataType, FuncDataType
from dflow_core.types import DataType as CoreType

NUMBERS = {
    "DT_FLOAT": (0, np.float32), "DT_FLOAT16": (1, np.float16), "DT_INT8": (2, np.int8), "DT_INT32": (3, np.int32),
    "DT_UINT8": (4, np.uint8), "DT_INT16": (6, np.int16), "DT_UINT16": (7, np.uint16), "DT_UINT32": (8, np.uint32),
    "DT_INT64": (9, np.int64), "DT_UINT64": (10, np.uint64), "DT_DOUBLE": (11, np.float64), "DT_BOOL": (12, np.bool_),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_type_has_its_number_its_name_and_its_numpy_type(name: str) -> None:
    number, numpy_type = NUMBERS[name]
    dtype = getattr(df, name)
    assert (int(dtype.dtype), str(dtype), repr(dtype)) == (number, name, name)
    assert dt._dflow_dtype_to_np_dtype[dtype] is numpy_type
    assert dt._np_dtype_to_dflow_dtype[np.dtype(numpy_type)] is dtype
    assert dt.get_python_dtype_from_dwrapper_dtype(DataType[name]) is dtype
    assert dt.core_type_of(dtype) is CoreType(number)


def test_strings_and_bfloat16_have_no_numpy_type_that_leads_back() -> None:
    assert dt._dflow_dtype_to_np_dtype[df.DT_STRING] is np.bytes_
    assert df.DT_STRING not in dt._np_dtype_to_dflow_dtype.values()
    assert dt.DT_BF16 not in dt._dflow_dtype_to_np_dtype
    assert not hasattr(df, "DT_BF16")
    assert int(dt.DT_BF16.dtype) == 27


def test_a_type_that_travelled_is_still_the_constant() -> None:
    assert pickle.loads(pickle.dumps([df.DT_INT8, dt.DT_BF16])) == [df.DT_INT8, dt.DT_BF16]


def test_an_unknown_number_is_refused() -> None:
    with pytest.raises(ValueError, match="is not support"):
        dt.get_python_dtype_from_dwrapper_dtype(18)


def test_function_types_are_the_same_without_strings() -> None:
    assert {m.name: m.value for m in DataType} == {m.name: m.value for m in FuncDataType} | {"DT_STRING": 13}
