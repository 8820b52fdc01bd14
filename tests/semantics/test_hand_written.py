"""Hand-written functions: what each call of theirs returns, and what becomes of what they send.

Sections 9 to 13 and 18 of the notes on the run time, for Python; 12 and 13 of those on the interface. All rows share
one deployed graph: its input names what the function is to do, and its results say what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from tests.semantics.rules import Rule, rules, shows

FAILED = 0xFFFFFFFF
LIMIT = 20000


def config(
    rows: int, cols: int, *positions: tuple[int, int], policy: ff.AffinityPolicy = ff.AffinityPolicy.NO_AFFINITY
) -> ff.BalanceConfig:
    made = ff.BalanceConfig(rows, cols, policy)
    made.set_data_pos(list(positions))
    return made


def named(context: ff.MetaRunContext) -> ff.FlowMsg:
    return context.alloc_tensor_msg([1], df.DT_INT32)


def raises(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return ""


ONE = np.zeros(1)
ROW, COL = ff.AffinityPolicy.ROW_AFFINITY, ff.AffinityPolicy.COL_AFFINITY

HEADS = [
    (name, value)
    for name, low, high in (
        ("ret_code", -(2**31), 2**31), ("start_time", 0, 2**64), ("end_time", 0, 2**64), ("flow_flags", 0, 2**32),
        ("route_label", 0, 2**32), ("transaction_id", 0, 2**64), ("msg_type", 0, 2**16),
    )
    for value in (low, low - 1, high - 1, high, 1.5)
]

# What the function is asked to do, by name: a call with its run context, whose result is what it answers with.
ASKED: dict[str, Callable[[ff.MetaRunContext], object]] = {
    "index beyond": lambda c: c.set_output(3, ONE),
    "index of another function": lambda c: c.set_output(2, ONE),
    "index below": lambda c: c.set_output(-1, ONE),
    "none": lambda c: c.set_output(1, None),  # type: ignore[arg-type]
    "not connected": lambda c: c.set_output(1, ONE),
    "number": lambda c: raises(lambda: c.set_output(1, 5)),  # type: ignore[arg-type]
    "complex": lambda c: raises(lambda: c.set_output(1, np.zeros(1, np.complex64))),
    "without balance": lambda c: c.set_output(1, ONE, config(1, 1, (0, 0))),
    "no messages": lambda c: c.set_multi_outputs(1, [], config(1, 1)),
    "multi number": lambda c: raises(lambda: c.set_multi_outputs(1, [5], config(1, 1, (0, 0)))),
    "user data": lambda c: bytes(c.get_user_data(4)),
    "user data offset": lambda c: bytes(c.get_user_data(2, 62)),
    "user data 0": lambda c: bytes(c.get_user_data(0)),
    "user data beyond": lambda c: bytes(c.get_user_data(2, 63)),
    "user data all": lambda c: bytes(c.get_user_data(64)) == b"user" + bytes(58) + b"!?",
    "align": lambda c: [raises(lambda a=a: c.alloc_tensor_msg([1], df.DT_INT8, a)) for a in (16, 32, 64, 1024, 2048)],
    "align odd": lambda c: raises(lambda: c.alloc_tensor_msg([1], df.DT_INT8, 48)),
    "bf16": lambda c: raises(lambda: c.alloc_tensor_msg([1], np.str_)),
    "empty shape": lambda c: c.alloc_tensor_msg([], df.DT_INT8).get_tensor().get_shape(),
    "shape with 0": lambda c: c.alloc_tensor_msg([2, 0], df.DT_INT8).get_tensor().get_element_cnt(),
    "raw of 0": lambda c: len(c.alloc_raw_data_msg(0).get_raw_data()),
    "raw": lambda c: [int(c.alloc_raw_data_msg(3).get_msg_type()), c.alloc_raw_data_msg(3).get_tensor()],
    "null": lambda c: c.alloc_empty_data_msg().get_tensor(),
    "inherited": lambda c: (
        named(c).get_start_time(), named(c).get_end_time(), named(c).get_flow_flags(), named(c).get_transaction_id(),
        named(c).get_ret_code(),
    ),
    "raise 33 bits": lambda c: raises(lambda: c.raise_exception(2**31, 0)),
    "raise -1": lambda c: raises(lambda: c.raise_exception(0, -1)),
    "heads": lambda c: [raises(lambda f=f, v=v: getattr(named(c), f"set_{f}")(v)) for f, v in HEADS],
    "exception": lambda c: c.get_exception(),
    "unknown key": lambda c: c.run_flow_model("nobody", [named(c)], 1000),
    "too many inputs": lambda c: c.run_flow_model("twice", [named(c), named(c)], 1000),
    "no inputs": lambda c: c.run_flow_model("twice", [], 1000),
    "timeout below -1": lambda c: c.run_flow_model("twice", [named(c)], -2)[0],
    "timeout 0": lambda c: [code in (0, 564000) for code in [c.run_flow_model("twice", [filled(c, 9)], 0)[0]]],
    "invoked": lambda c: called(c, 5),
    "invoked without limit": lambda c: called(c, 6, -1),
    "invoked twice": lambda c: [called(c, 7), called(c, 8)],
    "invoked fails": lambda c: c.run_flow_model("twice", [filled(c, -1)], LIMIT),
    "invoked after a failure": lambda c: [c.run_flow_model("twice", [filled(c, -1)], LIMIT)[0], called(c, 3)],
    "invoked code": lambda c: [
        c.run_flow_model("twice", [filled(c, -2)], LIMIT)[0], called(c, 4)],
    "invoked late": lambda c: [c.run_flow_model("twice", [filled(c, -3)], 1)[0], called(c, 4)],
    "invoked head": lambda c: c.run_flow_model("twice", [filled(c, 1)], LIMIT)[1][0].get_transaction_id()
    == named(c).get_transaction_id(),
}


def filled(context: ff.MetaRunContext, value: int) -> ff.FlowMsg:
    msg = named(context)
    msg.get_tensor().numpy()[0] = value
    return msg


def called(context: ff.MetaRunContext, value: int, timeout: int = LIMIT) -> tuple[int, list[int]]:
    code, found = context.run_flow_model("twice", [filled(context, value)], timeout)
    return code, [int(msg.get_tensor().numpy()[0]) for msg in found]


class Asked:
    """Does what it is asked for by name, and answers on output 0. Output 1 goes nowhere, 2 is another function's."""

    @ff.proc_wrapper("i0,o0,o1")
    def ask(self, context, msgs):
        name = bytes(msgs[0].get_tensor().numpy()).decode()
        answer = repr(ASKED[name](context)).encode()
        msg = context.alloc_tensor_msg([len(answer)], df.DT_UINT8)
        msg.get_tensor().numpy()[...] = np.frombuffer(answer, np.uint8)
        return context.set_output(0, msg)

    @ff.proc_wrapper("i1,o2")
    def send(self, context, msgs):
        """Sends as many messages as it is told, each with its number."""
        for number in range(int(msgs[0].get_tensor().numpy()[0])):
            code = context.set_output(2, np.array([number]))
            if code:
                return code
        return 0


class Twice:
    @ff.proc_wrapper("i0,o0")
    def double(self, context, msgs):
        import time

        value = int(msgs[0].get_tensor().numpy()[0])
        if value == -1:
            return 9900001
        msg = context.alloc_tensor_msg([1], df.DT_INT32)
        msg.get_tensor().numpy()[0] = 2 * value
        if value == -2:
            msg.set_ret_code(9900002)
        if value == -3:
            time.sleep(0.05)
        return context.set_output(0, msg)


@dataclass
class Script:
    graph: df.FlowGraph
    name: df.FlowData
    count: df.FlowData

    def ask(self, name: str) -> object:
        info = df.FlowInfo(3, 4, 2)
        info.set_user_data(b"user")
        info.set_user_data(b"!?", 62)
        fed = np.frombuffer(name.encode(), np.uint8)
        assert self.graph.feed_data({self.name: fed}, info, partial_inputs=True) == 0
        tensors, _info, code = self.graph.fetch_data([0], LIMIT)
        return bytes(tensors[0].numpy()).decode() if code == 0 else code


@pytest.fixture(scope="module")
def script(started: object) -> Iterator[Script]:
    name, count, inner = df.FlowData(name="a"), df.FlowData(name="b"), df.FlowData(name="inner")
    twice = df.FlowNode(1, 1)
    twice.add_process_point(df.FuncProcessPoint(py_func=Twice))
    point = df.FuncProcessPoint(py_func=Asked)
    point.add_invoked_closure("twice", df.FlowGraphProcessPoint(df.FlowGraph([twice(inner)])))
    node = df.FlowNode(2, 3)
    node.add_process_point(point)
    answer, _nowhere, numbers = node(name, count)  # type: ignore[misc]
    yield Script(df.FlowGraph([answer, numbers]), name, count)


@rules(
    Rule("P12.7", "set_output: an index the node does not have.", "index beyond", 164000),
    Rule("P12.7", "set_output: an output that is another function's.", "index of another function", 164000),
    Rule("P12.7", "set_output: an index below 0.", "index below", 164000),
    Rule("P12.7", "set_output: None, from an allocation that failed, is passed over.", "none", 0),
    Rule("P12.7", "set_output: an output that goes nowhere is passed over.", "not connected", 0),
    Rule("P12.7", "set_output: something else than a message or an array.", "number", "TypeError"),
    Rule("P12.7", "set_output: an array of a type tensors do not have.", "complex", "TypeError"),
    Rule("12.1", "A BalanceConfig on a node without a mark.", "without balance", 164000),
    Rule("12.1", "No messages with a BalanceConfig.", "no messages", 164000),
    Rule("P12.7", "set_multi_outputs: an element of another kind.", "multi number", "TypeError"),
    Rule("P12.7", "get_user_data: bytes from the start.", "user data", b"user"),
    Rule("P12.7", "get_user_data: bytes from an offset, up to the last.", "user data offset", b"!?"),
    Rule("P12.7", "get_user_data: size 0 is a failure: zeros.", "user data 0", bytes(64), "64 zeros"),
    Rule("P12.7", "get_user_data: beyond the 64 bytes.", "user data beyond", bytes(64), "64 zeros"),
    Rule("P12.7", "get_user_data: all 64 bytes.", "user data all", True),
    Rule("P12.7", "Alignments from 32 to 1024.", "align", ["DfException", "", "", "", "DfException"]),
    Rule("P12.7", "An alignment that does not divide 1024.", "align odd", "DfException"),
    Rule("P12.7", "A type tensors do not have.", "bf16", "TypeError"),
    Rule("P12.7", "A tensor without dimensions.", "empty shape", []),
    Rule("P12.7", "A tensor without elements.", "shape with 0", 0),
    Rule("P12.7", "A raw message without bytes.", "raw of 0", 0),
    Rule("P12.7", "A raw message has type 1, and no tensor.", "raw", [1, None]),
    Rule("P12.7", "An empty message has no tensor.", "null", None),
    Rule("P13.4", "New messages inherit times, flags and id, but no code.", "inherited", (3, 4, 2)),
    Rule("P12.3", "Times and ids of a head have 64 bits, codes, flags and labels 32, types 16.",
         "heads", ["", "TypeError", "", "TypeError", "TypeError"] * 7, "TypeError for what does not fit"),
    Rule("P12.7", "raise_exception: a code has 32 bits.", "raise 33 bits", "TypeError"),
    Rule("P12.7", "raise_exception: a context id is not below 0.", "raise -1", "TypeError"),
    Rule("P12.7", "get_exception where there is none.", "exception", (False, 0, 0)),
    Rule("P12.7", "run_flow_model: a key nobody knows.", "unknown key", (564000, [])),
    Rule("P12.7", "run_flow_model: more messages than inputs.", "too many inputs", (564000, [])),
    Rule("P12.7", "run_flow_model: no messages.", "no inputs", (564000, [])),
    Rule("P12.7", "run_flow_model: timeout -1 has no limit.", "invoked without limit", (0, [12])),
    Rule("P12.7", "run_flow_model: timeout 0 looks once.", "timeout 0", [True], "0 or 564000, at once"),
    Rule("P12.7", "run_flow_model: a timeout below -1.", "timeout below -1", 564000),
    Rule("18", "An invoked graph answers.", "invoked", (0, [10])),
    Rule("18", "It may be invoked again in one call.", "invoked twice", [(0, [14]), (0, [16])]),
    Rule("P12.7", "A failure inside is 564000.", "invoked fails", (564000, [])),
    Rule("18", "The next call is not disturbed by one that failed.", "invoked after a failure", [564000, (0, [6])]),
    Rule("P12.7", "A code on a message inside is 564000, too.", "invoked code", [564000, (0, [8])]),
    Rule("18", "What a call that timed out left behind goes to the next call.", "invoked late", [564000, (0, [8])],
         "[564000, (0, [8])]: what is late is let go",
         differs="what an invoked graph answers too late comes with the next answer"),
    Rule("18", "What is fed keeps its id.", "invoked head", True),
)
def test_calls_of_functions(script: Script, rule: Rule) -> None:
    answer = script.ask(str(rule.given))
    if rule.given == "inherited":
        assert isinstance(answer, str)
        *head, trans_id, code = eval(answer)
        assert tuple(head) == rule.expected and trans_id > 0 and code == 0
    else:
        assert answer == repr(rule.expected)


@rules(
    Rule("P12.7", "set_output may be called no times.", 0, []),
    Rule("P12.7", "set_output may be called once.", 1, [0]),
    Rule("6.2", "What does not fit into the queue waits, and goes in order.", 400, list(range(400)),
         "400 messages of one call, through a queue for 128"),
)
def test_one_call_may_send_any_number(script: Script, rule: Rule) -> None:
    assert script.graph.feed_data({script.count: [rule.given]}, partial_inputs=True) == 0
    assert script.graph.feed_data({script.count: [1]}, partial_inputs=True) == 0  # and the next call after that
    found = [
        int(script.graph.fetch_data([1], LIMIT)[0][0].numpy()[0]) for _ in range(len(rule.expected) + 1)  # type: ignore[arg-type]
    ]
    assert found == [*rule.expected, 0]  # type: ignore[misc]
    assert script.graph.fetch_data([1], 0)[2] == 207013


# ------------------------------------------------------------------------------------------------- balance, codes

class Deals:
    """Sends with the balance it is told: rows, columns, affinity, and a position."""

    @ff.proc_wrapper("i0,o0")
    def deal(self, context, msgs):
        rows, cols, policy, row, col = (int(number) for number in msgs[0].get_tensor().numpy())
        made = config(rows, cols, (row, col), policy=list(ff.AffinityPolicy)[policy])
        code = context.set_output(0, np.array([1]), made)
        return context.set_output(0, np.array([code])) if code else code


@pytest.fixture(scope="module")
def dealers(started: object) -> dict[str, tuple[df.FlowGraph, df.FlowData]]:
    data, outputs = df.FlowData(), []
    for mark in ("scatter", "gather"):
        node = df.FlowNode(1, 1)
        node.add_process_point(df.FuncProcessPoint(py_func=Deals))
        getattr(node, f"set_balance_{mark}")()
        outputs.append(node(data))
    graph = df.FlowGraph(outputs)
    return {"scatter": (graph, data), "gather": (graph, data)}


@rules(
    Rule("12.1", "A matrix of one.", (1, 1, 0, 0, 0), (1, 164000)),
    Rule("12.1", "Scatter needs NO_AFFINITY, gather ROW or COL: row.", (2, 2, 1, 1, 1), (164000, 1)),
    Rule("12.1", "Scatter needs NO_AFFINITY, gather ROW or COL: column.", (2, 2, 2, 1, 1), (164000, 1)),
    Rule("12.1", "Rows above 0.", (0, 1, 0, 0, 0), (164000, 164000)),
    Rule("12.1", "Columns above 0.", (1, 0, 1, 0, 0), (164000, 164000)),
    Rule("12.1", "A position below the last row.", (2, 2, 0, 2, 0), (164000, 164000)),
    Rule("12.1", "A position right of the last column.", (2, 2, 1, 0, 2), (164000, 164000)),
    Rule("12.1", "A position below 0.", (2, 2, 0, -1, 0), (164000, 164000)),
    Rule("12.1", "At most 65536 places.", (256, 256, 0, 255, 255), (1, 164000)),
    Rule("12.1", "More than 65536 places.", (256, 257, 0, 0, 0), (164000, 164000)),
)
def test_balance(dealers: dict[str, tuple[df.FlowGraph, df.FlowData]], rule: Rule) -> None:
    graph, data = dealers["scatter"]
    assert graph.feed_data({data: np.array(rule.given)}) == 0
    tensors, _info, code = graph.fetch_data(timeout=LIMIT)
    assert (tuple(int(tensor.numpy()[0]) for tensor in tensors), code) == (rule.expected, 0)


class Codes:
    """Returns the number it gets, or puts it on its message if that is told."""

    @ff.init_wrapper()
    def init_flow_func(self, params):
        code, self.on_message = params.get_attr_bool("on message")
        return code

    @ff.proc_wrapper("i0,o0")
    def give(self, context, msgs):
        number = int(msgs[0].get_tensor().numpy()[0])
        if not self.on_message:
            return number
        msg = context.alloc_tensor_msg([1], df.DT_INT8)
        msg.set_ret_code(number)
        return context.set_output(0, msg)


@pytest.fixture(scope="module")
def coders(started: object) -> tuple[df.FlowGraph, df.FlowData]:
    data, outputs = df.FlowData(), []
    for on_message in (False, True):
        point, node = df.FuncProcessPoint(py_func=Codes), df.FlowNode(1, 1)
        point.set_init_param("on message", on_message)
        node.add_process_point(point)
        outputs.append(node(df.FlowData(name="ab"[on_message])))
    return df.FlowGraph(outputs), data


STOPS = "an error in a function ends its process"


@rules(
    Rule("13", "A code on a message is what fetch returns: the least of the user's.", (1, 9900000), 9900000),
    Rule("13", "The greatest of the user's.", (1, 9999999), 9999999),
    Rule("5", "What is above 9 999 999 is FAILED.", (1, 10000000), FAILED, "4294967295"),
    Rule("12.1", "A code outside of the user's range is accepted.", (1, 5), 5),
    Rule("5", "A code below 0 is a number above 9 999 999.", (1, -1), FAILED, "4294967295"),
    Rule("13", "A function that returns something else than 0 ends its process.", (0, 9900005), 9900005, differs=STOPS),
    Rule("13", "It may return any number.", (0, 7), 7, differs=STOPS),
    Rule("13", "It may return a number below 0.", (0, -7), FAILED, "4294967295", differs=STOPS),
    Rule("13", "It may return 564000.", (0, 564000), 564000, differs=STOPS),
)
def test_codes_reach_the_caller(coders: tuple[df.FlowGraph, df.FlowData], rule: Rule) -> None:
    graph, _data = coders
    port, number = rule.given  # type: ignore[misc]
    data = graph._inputs[port]
    assert graph.feed_data({data: np.array([number])}, partial_inputs=True) == 0
    assert graph.fetch_data([port], LIMIT)[2] == rule.expected
    if port:
        assert graph.feed_data({data: np.array([0])}, partial_inputs=True) == 0
        assert graph.fetch_data([port], LIMIT)[2] == 0
    else:
        assert graph.fetch_data([port], 0)[2] == 207013


@shows(
    Rule("P2.2", "fetch has one code for messages with a code.", here="([], 145000)"),
    Rule("P8.4", "fetch_data with an error gives no tensors, whatever the others gave.", here="[]"),
)
def test_codes_and_fetch(coders: tuple[df.FlowGraph, df.FlowData]) -> None:
    graph, _data = coders
    a, b = graph._inputs
    for _ in range(2):
        assert graph.feed_data({a: np.array([9900001]), b: np.array([0])}) == 0
    assert graph.fetch(timeout=LIMIT) == ([], 145000)
    tensors, _info, code = graph.fetch_data(timeout=LIMIT)
    assert (tensors, code) == ([], 9900001)
