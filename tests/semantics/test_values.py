"""What can be made without a graph: tensors, user data, message types, parameters, decorated functions.

Sections 6, 7, 9, 10, 12, 13 and 16 of the notes on the Python interface.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from dataflow.data_type import DT_BF16, get_python_dtype_from_dwrapper_dtype
from dataflow.flow_func import flowfunc_wrapper as fw
from dataflow.flow_func.queues import ValueQueue
from dataflow.utils.msg_type_register import MsgTypeRegister
from dflow_core import udf
from dflow_core.errors import AbortError
from dflow_core.message import FlowMsg, MsgInfo, encode
from dflow_core.spi import FuncParams, InputQueue
from tests.semantics.rules import Rule, rules

NUMBERS = ("f4", "f2", "i1", "i4", "u1", "i2", "u2", "u4", "i8", "u8", "f8", "?")
INT = df.TensorDesc(df.DT_INT32, [2])


def code(call: Callable[[], object]) -> object:
    """The code of the exception a call raises, or what it gives."""
    try:
        return call()
    except df.DfException as error:
        return error.error_code
    except Exception as error:
        return type(error)


# -------------------------------------------------------------------------------------------------------- tensors

@rules(
    Rule("P6.1", "A dtype that is no DType.", lambda: df.TensorDesc(np.int32, [1]), 145022),
    Rule("P6.1", "A dtype that is a number.", lambda: df.TensorDesc(3, [1]), 145022),
    Rule("P6.1", "A shape that is no list.", lambda: df.TensorDesc(df.DT_INT8, 3), 145021),
    Rule("P6.1", "A dimension that is no int.", lambda: df.TensorDesc(df.DT_INT8, [1, 2.0]), 145021),
    Rule("P6.1", "An empty shape.", lambda: str(df.TensorDesc(df.DT_INT8, [])), "TensorDesc(dtype=DT_INT8, shape=[])"),
    Rule("P6.1", "A dimension below 0 is kept.", lambda: df.TensorDesc(df.DT_INT8, (-1, 2))._shape, [-1, 2]),
    Rule("P6.1", "Equal by type and shape.", lambda: df.TensorDesc(df.DT_INT32, (2,)) == INT, True),
    Rule("P6.1", "Unequal to something else.", lambda: INT == [2], False),
    Rule("P6.1", "No key of a dict.", lambda: hash(INT), TypeError),
    Rule("P6.2", "A shape that differs.", lambda: df.Tensor([1], tensor_desc=INT), 145021),
    Rule("P6.2", "The shape is looked at before the type.",
         lambda: df.Tensor([1], tensor_desc=df.TensorDesc(DT_BF16, [2])), 145021),
    Rule("P6.2", "A type numpy does not have.",
         lambda: df.Tensor([1, 2], tensor_desc=df.TensorDesc(DT_BF16, [2])), 145022),
    Rule("P6.2", "A cast that fails.", lambda: df.Tensor(["a", "b"], tensor_desc=INT), ValueError),
    Rule("P6.2", "Floats are cast to ints.", lambda: df.Tensor([1.9, -1.9], tensor_desc=INT).numpy().tolist(), [1, -1]),
    Rule("P6.2", "Objects without a description.", lambda: df.Tensor([None]), 145022),
    Rule("P6.2", "Complex numbers.", lambda: df.Tensor([1j]), 145022),
    Rule("P6.2", "Dates.", lambda: df.Tensor(np.array(["2026-11-30"], "M8[D]")), 145022),
    Rule("P6.2", "An array that does not lie in one piece.",
         lambda: df.Tensor(np.arange(6).reshape(2, 3)[:, 1:]), 145000),
    Rule("P6.2", "An array without elements.", lambda: df.Tensor(np.zeros((0, 3))).numpy().shape, (0, 3)),
    Rule("P6.2", "A number alone.", lambda: df.Tensor(5).numpy().shape, ()),
    Rule("P6.2", "The twelve types of numbers.",
         lambda: [df.Tensor(np.zeros(1, kind)).numpy().dtype == kind for kind in NUMBERS], [True] * 12, "as they are"),
    Rule("P6.2", "get_shape outside of a function.", lambda: df.Tensor([1]).get_shape(), 145000),
    Rule("P6.2", "reshape outside of a function.", lambda: df.Tensor([1]).reshape([1, 1]), 145000),
    Rule("P6.2", "numpy() of texts.", lambda: df.Tensor(["a"]).numpy(), 145000),
    Rule("P6.2", "numpy(copy=True) of texts.", lambda: df.Tensor(["a", "bc"]).numpy(True).tolist(), ["a", "bc"],
         differs="strings become ASCII with a NUL, and get a leading dimension of 1"),
    Rule("P6.2", "Bytes that are no text.", lambda: df.Tensor(np.array([b"\xff"])).numpy(True), 145000),
    Rule("P6.4", "More than 32 dimensions.", lambda: df.alloc_tensor([1] * 33, df.DT_INT8), 145021),
    Rule("P6.4", "32 dimensions.", lambda: df.alloc_tensor([1] * 32, df.DT_INT8).numpy().ndim, 32),
    Rule("P6.4", "A type of numpy.", lambda: df.alloc_tensor([2], np.float32).numpy().dtype, np.dtype("f4")),
    Rule("P6.4", "Another type of numpy.", lambda: df.alloc_tensor([2], np.complex64), TypeError),
    Rule("P6.4", "A type that numpy does not have.", lambda: df.alloc_tensor([2], DT_BF16), TypeError),
    Rule("P6.4", "An alignment of 16.", lambda: df.alloc_tensor([2], df.DT_INT8, 16), 145000),
    Rule("P6.4", "An alignment of 1024.", lambda: df.alloc_tensor([2], df.DT_INT8, 1024).numpy().shape, (2,)),
    Rule("P6.4", "A shape with 0.", lambda: df.alloc_tensor([0, 2], df.DT_INT8).numpy().size, 0),
    Rule("P6.4", "A dimension below 0.", lambda: df.alloc_tensor([-1], df.DT_INT8), 145021),
    Rule("P2.1", "str of a DType is its name.", lambda: str(df.DT_FLOAT16), "DT_FLOAT16"),
    Rule("P2.1", "A native type without numpy's.",
         lambda: get_python_dtype_from_dwrapper_dtype(DT_BF16.dtype), DT_BF16,
         differs="the native number of BF16 has no DType (ValueError)"),
    Rule("P3", "DfException without a code.", lambda: str(df.DfException("x")), "DfException:145000:x"),
    Rule("P3", "DfException with a code.", lambda: repr(df.DfException("x", 0)), "DfException:0:x"),
    Rule("P3", "Its args are empty.", lambda: df.DfAbortException("x", 564004).args, ()),
)
def test_tensors(rule: Rule) -> None:
    assert code(rule.given) == rule.expected  # type: ignore[arg-type]


def test_a_tensor_is_a_copy_of_what_it_was_made_of() -> None:
    """Section P6.2: data is copied at construction; another Tensor too."""
    array = np.arange(2)
    first = df.Tensor(array)
    second = df.Tensor(first)
    array[0], first.numpy()[1] = 9, 9
    assert (first.numpy().tolist(), second.numpy().tolist()) == ([0, 9], [0, 1])
    first.numpy(copy=True)[0] = 7
    assert first.numpy()[0] == 0


# ------------------------------------------------------------------------------------------------------ user data

def info_with(data: bytes, offset: int = 0) -> df.FlowInfo:
    made = df.FlowInfo()
    made.set_user_data(data, offset)
    return made


@rules(
    Rule("P7.2", "One byte at the last place.", lambda: info_with(b"x", 63).data_size, 64),
    Rule("P7.2", "64 bytes.", lambda: info_with(bytes(64)).data_size, 64),
    Rule("P7.2", "65 bytes.", lambda: info_with(bytes(65)), 145000),
    Rule("P7.2", "No bytes.", lambda: info_with(b""), 145000),
    Rule("P7.2", "An offset of 64.", lambda: info_with(b"x", 64), 145000),
    Rule("P7.2", "Beyond the end by one.", lambda: info_with(b"xy", 63), 145000),
    Rule("P7.2", "An offset below 0.", lambda: info_with(b"x", -1), 145000),
    Rule("P7.2", "A memoryview is as good as bytes.", lambda: bytes(info_with(memoryview(b"ab")).user_data[:2]), b"ab"),
    Rule("P7.2", "Reading some.", lambda: info_with(b"abcd").get_user_data(2, 1), bytearray(b"bc")),
    Rule("P7.2", "Reading 0 bytes: the document allows it.", lambda: info_with(b"ab", 62).get_user_data(0, 62),
         bytearray(b"ab"), "all from the offset on"),
    Rule("P7.2", "Reading beyond the end.", lambda: df.FlowInfo().get_user_data(2, 63), 145000),
    Rule("P7.2", "Reading from 64 on.", lambda: df.FlowInfo().get_user_data(0, 64), 145000),
    Rule("P7.2", "It prints its numbers.", lambda: str(df.FlowInfo(1, 2, df.FlowFlag.DATA_FLOW_FLAG_SEG, 4)),
         "FlowInfo(start_time=1, end_time=2, flow_flags=2, transaction_id=4)"),
)
def test_user_data(rule: Rule) -> None:
    assert code(rule.given) == rule.expected  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------- message types

class Point:
    """Something to register."""


def registered(*entries: tuple[int, type]) -> MsgTypeRegister:
    made = MsgTypeRegister()
    for number, clz in entries:
        made.register(number, clz, bytes, bytes)
    return made


@rules(
    Rule("P9", "The lowest number.", lambda: registered((1024, Point)).get_msg_type(Point), 1024),
    Rule("P9", "The highest number.", lambda: registered((65534, Point)).get_msg_type(Point), 65534),
    Rule("P9", "65535 belongs to pickles.", lambda: registered((65535, Point)), 145000),
    Rule("P9", "The same pair again.", lambda: registered((1024, Point), (1024, Point)).registered(1024), True),
    Rule("P9", "The same number, another class.", lambda: registered((1024, Point), (1024, int)), 145000),
    Rule("P9", "The same class, another number.", lambda: registered((1024, Point), (1025, Point)), 145000),
    Rule("P9", "A class that nobody registered.", lambda: registered().get_msg_type(Point), None),
    Rule("P9", "Subclasses are other classes.", lambda: registered((1024, int)).get_msg_type(bool), None),
    Rule("P9", "Pickles are there from the start.", lambda: registered().registered(65535), True),
    Rule("P9", "A number nobody registered.", lambda: registered().get_deserialize_func(1024), None),
)
def test_message_types(rule: Rule) -> None:
    assert code(rule.given) == rule.expected  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------------------- decorators

def two(x, y=1):
    return x


class Named:
    @df.method(num_returns=2)
    def later(self, a, b):
        return a, b

    @df.method()
    def first(self, a):
        return a

    def _not_a_function(self):
        return None


ports = df.pyflow(Named)


@rules(
    Rule("P10.1", "@pyflow of something else.", lambda: df.pyflow(5), TypeError),
    Rule("P10.1", "An option nobody knows.", lambda: df.pyflow(color=1), TypeError),
    Rule("P10.1", "num_returns of 0.", lambda: df.pyflow(num_returns=0)(two), AssertionError),
    Rule("P10.1", "num_returns that is no int.", lambda: df.pyflow(num_returns="1")(two), AssertionError),
    Rule("P10.1", "stream_input that is not \"Queue\".", lambda: df.pyflow(stream_input="queue")(two), TypeError),
    Rule("P10.2", "Parameters with defaults need an edge too.", lambda: df.pyflow(two).input_num, 2),
    Rule("P10.2", "*args counts as one.", lambda: df.pyflow(lambda *args: args).input_num, 1),
    Rule("P10.2", "Without an annotation there is one output.", lambda: df.pyflow(two).output_num, 1),
    Rule("P10.2", "self and cls do not count.", lambda: df.pyflow(lambda self, cls, x: x).input_num, 1),
    Rule("P10.3", "A class is not called.", lambda: ports(1), TypeError),
    Rule("P10.3", "A class with a member fnode.", lambda: df.pyflow(type("A", (), {"fnode": 1})), TypeError),
    Rule("P10.3", "@method without brackets.", lambda: df.method(two), AssertionError),
    Rule("P10.3", "@method with an option nobody knows.", lambda: df.method(resources={}), AssertionError),
    Rule("P10.3", "Methods take ports in alphabetical order.",
         lambda: [o.index for o in (ports.fnode().first(df.FlowData()), *ports.fnode().later(*[df.FlowData()] * 2))],
         [0, 1, 2]),
    Rule("P10.3", "Inputs and outputs of all methods.",
         lambda: (ports.fnode().input_num, ports.fnode().output_num), (3, 3)),
    Rule("P10.3", "A method gets another number of inputs.", lambda: ports.fnode().first(*[df.FlowData()] * 2), 145000),
    Rule("P10.3", "A method that is not decorated.", lambda: ports.fnode()._not_a_function, AttributeError),
    Rule("P10.3", "The node may be called with all inputs.", lambda: len(ports.fnode()(*[df.FlowData()] * 3)), 3),
    Rule("P10.4", "A call with something that is no message.",
         lambda: df.pyflow(two)(fw.MetaRunContext(), [0, 1]), 164000),
    Rule("P12.1", "A class without @proc_wrapper.", lambda: df.FuncProcessPoint(py_func=int), 564000),
    Rule("P7.6", "A parameter that can be nothing.",
         lambda: df.FuncProcessPoint("a").set_init_param("a", None), TypeError),
    Rule("P7.6", "A whole number beyond 64 bits.",
         lambda: df.FuncProcessPoint("a").set_init_param("a", -(2**63) - 1), TypeError),
    Rule("P7.6", "The smallest whole number.", lambda: df.FuncProcessPoint("a").set_init_param("a", -(2**63)), None),
    Rule("P7.6", "A list of two kinds.", lambda: df.FuncProcessPoint("a").set_init_param("a", [1, "b"]), TypeError),
    Rule("P7.6", "An empty list.", lambda: df.FuncProcessPoint("a").set_init_param("a", []), None),
)
def test_decorators_and_parameters(workplace: object, rule: Rule) -> None:
    assert code(rule.given) == rule.expected  # type: ignore[arg-type]


ATTRS = {"i": 3, "b": True, "f": 0.5, "s": "x", "li": [1, 2], "lli": [[1], [2, 3]]}


@rules(
    Rule("P12.5", "An attribute that is there.", ("int", "i"), (0, 3)),
    Rule("P12.5", "One that is missing.", ("int", "none"), (164001, -1)),
    Rule("P12.5", "One of another type.", ("int", "s"), (164002, -1)),
    Rule("P12.5", "A bool is no int.", ("int", "b"), (164002, -1)),
    Rule("P12.5", "An int is no bool.", ("bool", "i"), (164002, False)),
    Rule("P12.5", "A float.", ("float", "f"), (0, 0.5)),
    Rule("P12.5", "A missing float.", ("float", "none"), (164001, 0.0)),
    Rule("P12.5", "A text.", ("str", "s"), (0, "x")),
    Rule("P12.5", "A missing text.", ("str", "none"), (164001, "")),
    Rule("P12.5", "A list.", ("int_list", "li"), (0, [1, 2])),
    Rule("P12.5", "A list that is none.", ("int_list", "i"), (164002, [])),
    Rule("P12.5", "A list of lists.", ("int_list_list", "lli"), (0, [[1], [2, 3]])),
    Rule("P12.5", "A missing list.", ("str_list", "none"), (164001, [])),
    Rule("P12.5", "A missing type.", ("tensor_dtype", "none"), (164001, None)),
    Rule("P12.5", "A type that is none.", ("tensor_dtype", "i"), (164001, None)),
    Rule("P12.5", "Missing types.", ("tensor_dtype_list", "none"), (164001, [])),
)
def test_parameters_of_functions(rule: Rule) -> None:
    kind, name = rule.given  # type: ignore[misc]
    params = ff.PyMetaParams(fw.MetaParams(udf.MetaParams(FuncParams("n", 0, 1, "cpu:0", 1, 1, 1, ATTRS))))
    assert getattr(params, f"get_attr_{kind}")(name) == rule.expected


# --------------------------------------------------------------------------------------------------------- queues

class Source(InputQueue):
    """Gives messages; then nothing, or the end."""

    depth = 2

    def __init__(self, *values: object, ended: bool = False) -> None:
        self.msgs = deque(v if isinstance(v, FlowMsg) else encode(v, MsgInfo()) for v in values)
        self.ended = ended

    def get(self, timeout: float | None = None) -> FlowMsg | None:
        if not self.msgs and self.ended:
            raise AbortError("the end")
        return self.msgs.popleft() if self.msgs else None

    def level(self) -> int:
        return len(self.msgs)


def coded(number: int) -> FlowMsg:
    made = encode(1, MsgInfo())
    made.set_ret_code(number)
    return made


@rules(
    Rule("P12.4", "block=False with nothing there.", lambda make: make(Source()).get(block=False), queue.Empty),
    Rule("P12.4", "block=False after the end: any failure is Empty.",
         lambda make: make(Source(ended=True)).get(block=False), queue.Empty),
    Rule("P12.4", "block=False where a message has a code.",
         lambda make: make(Source(coded(5))).get_nowait(), queue.Empty),
    Rule("P12.4", "A timeout of 0 with nothing there.", lambda make: make(Source()).get(timeout=0), queue.Empty),
    Rule("P12.4", "A timeout below 0.", lambda make: make(Source(1)).get(timeout=-1), ValueError),
    Rule("P12.4", "A timeout that passes.", lambda make: make(Source()).get(timeout=1), queue.Empty),
    Rule("P12.4", "The end.", lambda make: make(Source(ended=True)).get(), 564004),
    Rule("P12.4", "A message with a code.", lambda make: make(Source(coded(9900001))).get(), 9900001),
    Rule("P12.4", "Null data is None.", lambda make: make(Source(None)).get(), None),
    Rule("P12.4", "An object.", lambda make: make(Source({"a": 1})).get(), {"a": 1}),
    Rule("P12.4", "full: as many as its depth.", lambda make: [make(Source(*range(n))).full() for n in range(4)],
         [False, False, True, True]),
    Rule("P12.4", "maxsize is the depth.", lambda make: make(Source()).maxsize, 2),
    Rule("P12.4", "qsize and empty.", lambda make: (make(Source(1)).qsize(), make(Source()).empty()), (1, True)),
    Rule("P12.4", "Nothing can be put.", lambda make: make(Source()).put(1), NotImplementedError),
    Rule("P12.4", "Nor joined.", lambda make: make(Source()).join(), NotImplementedError),
)
@pytest.mark.parametrize("of", ["messages", "values"])
def test_queues(rule: Rule, of: str) -> None:
    def make(source: Source) -> ff.FlowMsgQueue:
        if of == "values":
            return ff.FlowMsgQueue(ValueQueue(udf.FlowMsgQueue(source)))
        return ff.FlowMsgQueue(fw.FlowMsgQueue(udf.MessageQueue(source)))

    assert code(lambda: rule.given(make)) == rule.expected  # type: ignore[operator]


@pytest.fixture(autouse=True)
def names() -> Iterator[None]:
    """Names and sessions of other tests are not in the way."""
    df.finalize()
    yield
