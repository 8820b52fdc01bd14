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
from dflow_core.udf import MetaParams, MetaRunContext, logger

PARAMS = {
    "number": 7, "text": "seven", "numbers": [1, 2, 3], "texts": ["a", "b"], "real": 2.5, "reals": [0.5, 1.5],
    "flag": True, "flags": [False, True], "type": df.DataType.INT16, "types": [df.DataType.INT8, df.DataType.DOUBLE],
    "lists": [[1], [9, 2]],
}


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

    def types(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        get = self.params
        found = [
            get.get_attr_str("text"), get.get_attr_str_list("texts"), get.get_attr_float("real"),
            get.get_attr_float_list("reals"), get.get_attr_bool("flag"), get.get_attr_bool_list("flags"),
            get.get_attr_tensor_dtype("type"), get.get_attr_tensor_dtype_list("types"),
            get.get_attr_int_list_list("lists"),
        ]
        text, texts, real, reals, flag, flags, dtype, dtypes, lists = [value for _, value in found]
        return answer(context, [
            sum(code for code, _ in found), len(text), len(texts), int(real * 2), int(reals[1] * 2), flag, flags[1],
            dtype is np.int16, dtypes[1] is np.float64, lists[1][0],
        ])

    def mismatches(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        get = self.params
        return answer(context, [
            get.get_attr_int("real")[0], get.get_attr_float("number")[0], get.get_attr_bool("number")[0],
            get.get_attr_str("number")[0], get.get_attr_int_list("number")[0],
        ])

    def names(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        return answer(context, [self.params.get_name() == "table", isinstance(self.params.get_work_path(), str)])

    def soft_error(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        inputs[0].set_ret_code(9900001)
        return context.set_output(0, inputs[0])

    def null_pointer(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        return context.set_output(0, None)

    def twice(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        answer(context, [1])
        return answer(context, [2])

    def heads(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        out = context.alloc_tensor_msg([5], np.int64)
        same = out.get_transaction_id() == inputs[0].get_transaction_id()
        head = [out.get_start_time(), out.get_end_time(), out.get_flow_flags(), out.get_ret_code(), same]
        out.get_tensor()[...] = head
        return context.set_output(0, out)

    def own_head(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        out = context.alloc_tensor_msg([1], np.int64)
        out.get_tensor()[...] = 1
        out.set_start_time(5)
        out.set_end_time(77)
        out.set_flow_flags(2)
        return context.set_output(0, out)

    def logs(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        logger.error("%s of transaction", "a line")
        return answer(context, [1])

    def throws_it(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        raise RuntimeError("it broke")

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
    # function; section (A: udf-cpp-api.md, S: runtime-semantics.md); what its caller gets; rule
    ("inits", "A 15.3", [1], "Init is called once for all functions of a node"),
    ("bad_index", "A 10.2", [164000, 164000], "an output that is not there, or another function's, is refused"),
    ("null_pointer", "A 10.2", DroppedError, "no message at all is accepted, and nothing is sent"),
    ("twice", "A 10.2", [1], "several messages of one call are parts, in order"),
    ("nothing", "A 10.2", DroppedError, "a call that sends nothing drops its transaction"),
    ("code", "A 15.4", 9900007, "a call that gives a code ends its transaction"),
    ("throws_it", "A 15.4", 0, "so does one that throws"),
    ("soft_error", "S 13", 9900001, "a code that is set on a message reaches the caller"),
    ("null", "A 10.1", None, "an empty message arrives as nothing"),
    ("heads", "A 10.1", [5, 9, 1, 0, 1], "a new message inherits times, flags and transaction, and is good"),
    ("own_head", "S 13", [1], "what a function sets goes before what it inherits"),
    ("user_data", "A 10.3", [98, 99, 100, 101], "user data is that of the input"),
    ("attrs", "A 5", [0, 7, 164001, 164002, 0, 3], "a parameter is only what it was set as"),
    ("types", "A 5", [0, 5, 2, 5, 3, 1, 1, 1, 1, 9], "parameters of every type arrive"),
    ("mismatches", "A 5", [164002] * 5, "and none is converted"),
    ("ports", "A 11", [2, 2, 1, 0, 1], "ports are counted of the whole node, inputs of the function"),
    ("names", "A 11", [1, 1], "a function knows its node and its folder"),
    ("times", "S 13", [5], "times of the input are there, and are inherited"),
    ("trans_id", "S 4", [1], "the transaction is known"),
    ("logs", "A 14", [1], "lines go to the log of the node"),
    (
        "invoke", "A 10.4", [0, 2, 4, 1, 164000, 164000, 564000, 564001, 0, 8, 1],
        "a called graph answers with a message for each output, null for a branch not taken; other calls give codes",
    ),
]
HEADS = {"times": (5, 77, 1), "own_head": (5, 77, 2)}
"""Times and flags that the result has, where the function changes them."""


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
@pytest.mark.parametrize(("name", "section", "expected", "rule"), BEHAVIOUR, ids=[row[0] for row in BEHAVIOUR])
def test_both_languages_do_the_same(built, make, capfd, name, section, expected, rule):
    node = make(name, built)
    first, _ = node(df.FlowData("x"), df.FlowData("y"))
    info = df.FeedInfo(start_time=5, end_time=9, flow_flags=1, user_data=b"abcdef")
    try:
        with df.FlowGraph([first]) as graph:
            if expected is DroppedError or isinstance(expected, int):
                with pytest.raises(NodeError if isinstance(expected, int) else DroppedError) as caught:
                    graph(np.arange(3), np.arange(2), timeout=30)
                assert getattr(caught.value, "ret_code", 0) == (expected if isinstance(expected, int) else 0), rule
                return
            graph.feed({"x": np.arange(3), "y": np.arange(2)}, info=info)
            result, told = graph.fetch(with_info=True, timeout=30)
            if name == "twice":
                assert graph.fetch(timeout=30).tolist() == [2], rule
    finally:
        built.configure()
    assert (None if result is None else np.asarray(result).tolist()) == expected, (section, rule)
    assert (told.start_time, told.end_time, told.flow_flags) == HEADS.get(name, (5, 9, 1)), section
    assert name != "logs" or "a line of transaction" in capfd.readouterr().err
