"""What docs/reference/dtypes.md says of element types, shapes and layouts is so."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import dflow_core as df
from dflow_core.types import numpy_dtype_of

NUMBERS = [kind for kind in df.DataType if kind.itemsize]


@df.pyflow
def same(value):
    return value


@pytest.fixture(scope="module")
def send() -> Callable[[object], object]:
    """Sends a value through a function and gives what comes back."""
    with df.FlowGraph([same.fnode()(df.FlowData("x"))], name="same", mode="inline") as graph:
        yield graph


def test_every_element_type_is_in_the_table(root):
    page = (root / "docs/reference/dtypes.md").read_text(encoding="utf-8")
    assert not [kind.name for kind in df.DataType if not re.search(rf"`{kind.name}`", page)]
    rows = [line for line in page.splitlines() if line.startswith("| ") and "`" in line]
    for row in rows:
        names = [name for name in re.findall(r"`([A-Z0-9]+)`", row.split("|")[1]) if name in df.DataType.__members__]
        if names:
            numbers = [int(number) for number in re.findall(r"\d+", row.split("|")[2])]
            assert numbers == [df.DataType[name].value for name in names], row


@pytest.mark.parametrize("kind", NUMBERS, ids=lambda kind: kind.name)
def test_every_number_type_comes_back(send, kind):
    value = np.array([[0, 1], [1, 0]]).astype(numpy_dtype_of(kind))
    got = send(value)
    assert got.dtype == value.dtype and np.array_equal(got, value)


@pytest.mark.parametrize("value", [np.array(["a", "ää"]), np.array([b"a", b"bc"]), np.array(["x", b"y"], object)])
def test_texts_and_bytes_come_back(send, value):
    assert send(value).tolist() == value.tolist()


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (np.array(3.0), ()),
        (np.float32(3), ()),
        (np.zeros((0, 3)), (0, 3)),
        (np.zeros((1,) * 32), (1,) * 32),
        (np.arange(24).reshape(4, 6)[::2, ::3], (2, 2)),
        (np.arange(6).reshape(2, 3).T, (3, 2)),
        (np.array([1, 2], ">i4"), (2,)),
        (np.array([1.5], ">f8"), (1,)),
    ],
)
def test_shapes_and_layouts_become_what_the_page_says(send, value, shape):
    got = send(value)
    assert got.shape == shape and np.array_equal(got, value)
    assert got.flags.c_contiguous and got.dtype.isnative and not got.flags.writeable


def test_more_than_32_dimensions_are_refused(send):
    with pytest.raises(df.TensorError, match="32"):
        send(np.zeros((1,) * 33))


@pytest.mark.parametrize("value", [np.array([1j]), np.array(["2026-01-01"], "M8[D]"), np.zeros(2, "i4,f4")])
def test_other_dtypes_are_refused_but_travel_inside_an_object(send, value):
    with pytest.raises(df.TensorError, match="cannot be sent as a tensor"):
        send(value)
    assert np.array_equal(send({"a": value})["a"], value)


@pytest.mark.parametrize("kind", NUMBERS, ids=lambda kind: kind.name)
def test_every_number_type_can_be_batched(kind):
    node, point = df.FlowNode(1, 1, name="same"), df.FuncProcessPoint(py_func=same)
    node.add_process_point(point)
    node.map_input(0, point, 0, [df.CountBatch(2)])
    value = np.array([0, 1]).astype(numpy_dtype_of(kind))
    with df.FlowGraph([node(df.FlowData("x"))], name="batched", mode="inline") as graph:
        (got,) = graph.map([value, value])
        assert got.dtype == value.dtype and got.shape == (2, 2)
