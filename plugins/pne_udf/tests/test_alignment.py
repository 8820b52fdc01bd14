"""Alignment and exceptions in graphs of C++ functions, and the same of hand-written Python ones.

Rules: runtime-semantics.md sections 10 and 14. The C++ side is `TABLE` in conftest.py.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

import dflow_core as df
from dflow_core.message import FlowMsg
from dflow_core.udf import MetaRunContext

ALIGN_FAILED = 364000


class Table:
    count = code = 0

    def raises(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        if not inputs:
            return 0
        if inputs[0].get_tensor()[0] == -3:
            context.raise_exception(9900003, 1 << 63)
            context.raise_exception(9900004, 4)
        return context.set_output(0, inputs[0])

    def hears(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        if not inputs:
            (found, code, number), again = context.get_exception(), context.get_exception()
            self.count += (1 if found else 100) + 100 * again[0]
            self.code = code + (1000000 if number == 1 << 63 else 0)
            return 0
        return answer(context, [self.count, self.code])

    def meets(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        if not inputs:
            return 0
        codes = [msg.get_ret_code() for msg in inputs]
        return answer(context, [*codes, *(msg.get_tensor() is None for msg in inputs)])


def answer(context: MetaRunContext, numbers: list[int]) -> int:
    out = context.alloc_tensor_msg([len(numbers)], np.int64)
    out.get_tensor()[...] = numbers
    return context.set_output(0, out)


def cpp_node(name: str, inputs: int, built) -> df.FlowNode:
    config = built.configure(func_list=[{"func_name": name}], input_num=inputs, output_num=1)
    point = df.FuncProcessPoint(built.write(f"{name}.json", config.read_text()))
    return point.fnode(inputs, 1, name=name)


def python_node(name: str, inputs: int, built) -> df.FlowNode:
    function = getattr(Table, {"told": "hears"}.get(name, name))
    ports = ",".join([*(f"i{i}" for i in range(inputs)), "o0"])
    one = type(name, (), {"count": 0, "code": 0, name: df.proc_wrapper(ports)(function)})
    return df.FuncProcessPoint(py_func=one).fnode(inputs, 1, name=name)


def graph_of(make, built, drop: bool) -> df.FlowGraph:
    x, y = df.FlowData("x"), df.FlowData("y")
    outputs = [make("told", 1, built)(make("raises", 1, built)(x)), make("meets", 2, built)(x, y)]
    graph = df.FlowGraph(outputs, name="aligned")
    graph.set_inputs_align_attrs(8, 0.2, drop)
    graph.set_exception_catch(True)
    return graph


def number(value: int) -> np.ndarray:
    return np.array([value], np.int64)


@pytest.fixture
def restored(built):
    yield built
    built.configure()


@pytest.mark.parametrize("make", [cpp_node, python_node], ids=["cpp", "python"])
def test_exceptions_and_gaps_in_both_languages(restored, make) -> None:
    with graph_of(make, restored, drop=False) as graph:
        told, met = graph(number(1), number(1), timeout=30)
        assert (told.tolist(), met.tolist()) == ([0, 0], [0, 0, 0, 0])

        graph.feed({"x": number(-3), "y": number(1)}, info=df.FeedInfo(start_time=5, end_time=6, user_data=b"abc"))
        with pytest.raises(df.RaisedError) as caught:
            graph.fetch(timeout=30)
        error = caught.value
        assert (error.code, error.user_context_id, error.trans_id, error.node) == (9900003, 1 << 63, 2, "raises")
        assert (error.start_time, error.end_time, error.user_data[:3]) == (5, 6, b"abc")

        until = time.monotonic() + 30
        while (told := graph(number(1), number(1), timeout=30)[0].tolist()) != [1, 10900003]:
            assert told == [0, 0] and time.monotonic() < until

        trans_id = graph.feed({"x": number(1)}, partial=True)
        told, met = graph.fetch(timeout=30)
        assert met.tolist() == [0, ALIGN_FAILED, 0, 1]
        assert graph.feed({"y": number(1)}, partial=True) == trans_id  # late: dropped, and counted
        told, met = graph(number(1), number(1), timeout=30)
        assert met.tolist() == [0, 0, 0, 0]
        counters = graph.counters
        assert (counters.failed, graph.running.client.in_flight) == (1, 0) and counters.late >= 1


@pytest.mark.parametrize("make", [cpp_node, python_node], ids=["cpp", "python"])
def test_sets_that_are_dropped_name_the_node_and_the_input(restored, make) -> None:
    with graph_of(make, restored, drop=True) as graph:
        graph.feed({"x": number(1)}, partial=True)
        with pytest.raises(df.MissingError, match="input 1 did not come .*not fed: 1") as caught:
            graph.fetch(timeout=30)
        assert (caught.value.node, caught.value.trans_id) == ("meets", 1)
        told, met = graph(number(1), number(1), timeout=30)
        assert met.tolist() == [0, 0, 0, 0]


@df.pyflow
def pair(a, b):
    return [-1 if x is None else int(x[0]) for x in (a, b)]


def value_node(name: str, inputs: int, built) -> df.FlowNode:
    return pair.fnode(name)


@pytest.mark.parametrize(
    ("make", "mode"),
    # C++ functions run in processes only.
    [(cpp_node, "process"), *((make, mode) for make in (python_node, value_node) for mode in ("process", "inline"))],
)
def test_a_node_gives_up_by_its_own_limits(restored, make, mode: str) -> None:
    """The graph would wait for ever; the node drops what is incomplete soon, and says so in the plan."""
    x, y = df.FlowData("x"), df.FlowData("y")
    join = make("meets", 2, restored).set_options(align_max_cache=4, align_timeout=0.1, align_drop=True)
    with df.FlowGraph([join(x, y)], mode=mode) as graph:
        for _ in range(2):
            graph.feed({"x": number(1)}, partial=True)
            with pytest.raises(df.MissingError, match="input 1 did not come") as caught:
                graph.fetch(timeout=30)
            assert caught.value.node == "meets"
        assert graph(number(1), number(1), timeout=30) is not None
        if mode == "process":
            notes = graph.running.deployment.plan.notes
            (note,) = (one for one in notes if one.startswith("meets: parts of its inputs"))
            assert note.endswith("wait in 4 sets at most, 0.1 s; what is given up is dropped (its own limits)")
