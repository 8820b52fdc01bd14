"""One table of behaviour for functions in C++ and hand-written ones in Python: what they do, and what callers see.

The C++ side is `TABLE` in conftest.py; the Python side is below, function by function the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType

import numpy as np
import pytest

import dflow_core as df
from dflow_core.errors import DroppedError, NodeError
from dflow_core.message import FlowMsg
from dflow_core.udf import MetaParams, MetaRunContext

PARAMS = {"number": 7, "text": "seven", "numbers": [1, 2, 3]}


def answer(context: MetaRunContext, numbers: Sequence[int]) -> int:
    out = context.alloc_tensor_msg([len(numbers)], np.int64)
    out.get_tensor()[...] = numbers
    return context.set_output(0, out)


class Table:
    @df.init_wrapper()
    def init_flow_func(self, params: MetaParams) -> int:
        self.count = getattr(self, "count", 0) + 1
        self.params = params
        return 0

    def inits(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        return answer(context, [self.count])

    def bad_index(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        return answer(context, [context.set_output(9, inputs[0]), context.set_output(1, inputs[0])])

    def nothing(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        return 0

    def code(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        return 9900007

    def null(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        return context.set_output(0, context.alloc_empty_data_msg())

    def user_data(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        return answer(context, list(context.get_user_data(4, 1)))

    def attrs(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        found, number = self.params.get_attr_int("number")
        missing, _ = self.params.get_attr_int("none")
        other, _ = self.params.get_attr_int("text")
        listed, numbers = self.params.get_attr_int_list("numbers")
        return answer(context, [found, number, missing, other, listed, len(numbers)])

    def ports(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        params = self.params
        counts = [params.get_input_num(), params.get_output_num(), len(inputs)]
        return answer(context, [*counts, params.get_running_instance_id(), params.get_running_instance_num()])

    def times(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        out = context.alloc_tensor_msg([1], np.int64)
        out.get_tensor()[...] = inputs[0].get_start_time()
        out.set_end_time(77)
        return context.set_output(0, out)

    def trans_id(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        return answer(context, [inputs[0].get_transaction_id()])

    def invoke(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        def run(key: str, messages: list[FlowMsg], timeout: int = 20000) -> tuple[int, list[FlowMsg]]:
            return context.run_flow_model(key, messages, timeout)

        def one(number: int) -> FlowMsg:
            msg = context.alloc_tensor_msg([1], np.int64)
            msg.get_tensor()[...] = number
            return msg

        good, out = run("twice", inputs)
        unknown, few = run("nobody", inputs)[0], run("twice", [])[0]
        failing, late = run("twice", [one(-1)])[0], run("twice", [one(-2)], 20)[0]
        again, last = run("twice", [one(4)])
        same = last[0].get_transaction_id() == inputs[0].get_transaction_id()
        first = out[0].get_tensor()[2], out[1].get_tensor() is None
        return answer(
            context, [good, len(out), *first, unknown, few, failing, late, again, last[0].get_tensor()[0], same]
        )

    def pass_(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        return context.set_output(1, inputs[0])


BEHAVIOUR = [
    # function: what its caller gets
    ("inits", [1], "Init is called once for all functions of a node"),
    ("bad_index", [164000, 164000], "an output that is not there, or another function's, is refused"),
    ("nothing", DroppedError, "a call that sends nothing drops its transaction"),
    ("code", NodeError, "a call that gives a code ends its transaction"),
    ("null", None, "an empty message arrives as nothing"),
    ("user_data", [98, 99, 100, 101], "user data is that of the input"),
    ("attrs", [0, 7, 164001, 164002, 0, 3], "a parameter is only what it was set as"),
    ("ports", [2, 2, 1, 0, 1], "ports are counted of the whole node, inputs of the function"),
    ("times", [5], "times of the input are there, and are inherited"),
    ("trans_id", [1], "the transaction is known"),
    (
        "invoke", [0, 2, 4, 1, 164000, 164000, 564000, 564001, 0, 8, 1],
        "a called graph answers with a message for each output, null for a branch not taken; other calls give codes",
    ),
]


@df.pyflow
def twice(x):
    """What the functions call."""
    import time

    if x[0] == -1:
        raise ValueError("no negative numbers")
    if x[0] == -2:
        time.sleep(0.3)
    return x * 2


@df.pyflow(choice_output=lambda x: x is not None)
def never(x):
    return None


def cpp_node(name: str, built) -> df.FlowNode:
    functions = [
        {"func_name": name, "inputs_index": [0], "outputs_index": [0]},
        {"func_name": "pass", "inputs_index": [1], "outputs_index": [1]},
    ]
    point = df.FuncProcessPoint(built.configure(func_list=functions, input_num=2, output_num=2))
    return with_params(point)


def python_node(name: str, _built) -> df.FlowNode:
    # Each case has two functions, as each C++ case has: the one of the table, and one that owns the other ports.
    body = {key: value for key, value in vars(Table).items() if not key.startswith("__")}
    for method, ports in ((name, "i0,o0"), ("pass_", "i1,o1")):
        body[method] = df.proc_wrapper(ports)(copy_of(body[method]))
    return with_params(df.FuncProcessPoint(py_func=type("Table", (), body)))


def copy_of(func: FunctionType) -> FunctionType:
    """The same function again: a mark on one is none on the other."""
    return FunctionType(func.__code__, func.__globals__, func.__name__)


def with_params(point: df.FuncProcessPoint) -> df.FlowNode:
    for key, value in PARAMS.items():
        point.set_init_param(key, value)
    doubled = twice.fnode()(df.FlowData("x"))
    point.add_invoked_closure("twice", df.FlowGraph([doubled, never.fnode()(doubled)], name="called"))
    return point.fnode(2, 2, name="table")


@pytest.mark.parametrize("make", [cpp_node, python_node], ids=["cpp", "python"])
@pytest.mark.parametrize(("name", "expected", "rule"), BEHAVIOUR, ids=[name for name, _, _ in BEHAVIOUR])
def test_both_languages_do_the_same(built, make, name, expected, rule):
    node = make(name, built)
    first, _ = node(df.FlowData("x"), df.FlowData("y"))
    info = df.FeedInfo(start_time=5, user_data=b"abcdef")
    try:
        with df.FlowGraph([first]) as graph:
            feed = {"x": np.arange(3), "y": np.arange(2)}
            if isinstance(expected, type):
                with pytest.raises(expected) as caught:
                    graph(feed["x"], feed["y"], timeout=30)
                assert getattr(caught.value, "ret_code", 0) == (9900007 if name == "code" else 0)
                return
            graph.feed(feed, info=info)
            result, told = graph.fetch(with_info=True, timeout=30)
    finally:
        built.configure()
    assert (None if result is None else np.asarray(result).tolist()) == expected, rule
    assert (told.start_time, told.end_time) == (5, 77 if name == "times" else 0)
