"""`@pyflow` and `@method`: options, ports, and calls with messages as an executor makes them."""

from __future__ import annotations

import json
from typing import Optional, Tuple  # noqa: UP035  # what scripts write

import numpy as np
import pytest

import dataflow as df
from dataflow.flow_func import flowfunc_wrapper as fw
from dflow_core.message import MsgInfo, encode


def message(value: object, **head: int) -> fw.FlowMsg:
    return fw.FlowMsg(encode(value, MsgInfo(**head)))


class Context(fw.MetaRunContext):
    """Keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[int, object]] = []

    def set_output(self, index, msg, balance=None) -> int:
        tensor = msg.get_tensor()
        self.sent.append((index, None if tensor is None else tensor.native_array().tolist()))
        return 0


@df.pyflow
def add(a, b):
    return df.Tensor(a.numpy() + b.numpy())


@df.pyflow(num_returns=2, choice_output=lambda item: item is not None)
def split(a):
    return (a, None) if a.numpy()[0] > 0 else (None, a)


@df.pyflow()
def many(a):
    for i in range(3):
        yield df.Tensor(a.numpy() + i)


def test_a_call_with_messages_gives_a_code() -> None:
    one = message(np.ones(2))
    context = Context()
    assert add(context, [one, one]) == 0
    assert context.sent == [(0, [2.0, 2.0])]
    assert add(fw.MetaRunContext(), [one, one]) == 0
    assert add(fw.MetaRunContext(), [0, 1]) == 164000
    assert add(fw.MetaRunContext(), [one]) == 564000
    bad = message(np.ones(2))
    bad.set_ret_code(9900001)
    assert add(fw.MetaRunContext(), [one, bad]) == 564000
    bad = message(np.ones(2))
    bad.set_msg_type(2)
    assert add(fw.MetaRunContext(), [one, bad]) == 564000


def test_outputs_are_chosen() -> None:
    context = Context()
    assert split(context, [message(np.array([1]))]) == 0
    assert split(context, [message(np.array([-1]))]) == 0
    assert context.sent == [(0, [1]), (1, [-1])]


def test_what_is_yielded_is_sent_one_by_one() -> None:
    context = Context()
    assert many(context, [message(np.array([1]))]) == 0
    assert context.sent == [(0, [1]), (0, [2]), (0, [3])]


def test_an_empty_message_is_none_and_none_is_an_empty_message() -> None:
    context = Context()
    echo = df.pyflow(lambda x: x)
    assert echo(context, [message(None)]) == 0
    assert context.sent == [(0, None)]


def test_a_wrong_number_of_results_is_a_code(capsys) -> None:
    assert df.pyflow(num_returns=2)(lambda x: (x,))(Context(), [message(1)]) == 564000
    assert df.pyflow(lambda x: 1 / 0)(Context(), [message(1)]) == 564000
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_call_that_is_broken_off_is_well() -> None:
    def stop(x):
        raise df.DfAbortException("end", 564004)

    assert df.pyflow(stop)(Context(), [message(1)]) == 0


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: df.pyflow(5), TypeError),
        (lambda: df.pyflow(bad=1), TypeError),
        (lambda: df.pyflow(stream_input="List")(add._func), TypeError),
        (lambda: df.pyflow(num_returns=0)(add._func), AssertionError),
        (lambda: df.pyflow(num_returns="2")(add._func), AssertionError),
        (lambda: df.method(add._func), AssertionError),
        (lambda: df.method(bad=1), AssertionError),
        (lambda: df.pyflow(type("A", (), {"fnode": 1})), TypeError),
        (lambda: df.pyflow(type("A", (), {"a": 1}))(), TypeError),
    ],
)
def test_what_is_refused(make, error) -> None:
    with pytest.raises(error):
        make()


def test_the_annotation_counts_outputs() -> None:
    def two(a): ...
    def maybe(a): ...

    two.__annotations__ = {"return": Tuple[int, int]}  # noqa: UP006
    maybe.__annotations__ = {"return": Optional[int]}  # noqa: UP045
    assert df.pyflow(two).output_num == 2
    assert df.pyflow(maybe).output_num == 2
    with pytest.raises(AssertionError):
        df.pyflow(num_returns=3)(two)
    assert (add.input_num, add.output_num, add.func_name, add._clz_name) == (2, 1, "add", "add")


@df.pyflow(resources={"memory": 100, "num_cpus": 2})
class Arithmetic:
    def __init__(self, start):
        self.start = start

    @df.method(num_returns=2)
    def sub(self, a, b):
        return a, b

    @df.method()
    def add(self, a):
        return a

    def plain(self):
        return self.start


def test_methods_take_their_ports_in_alphabetical_order(folder) -> None:
    node = Arithmetic.fnode(5)
    assert (node.name, node.input_num, node.output_num) == ("Arithmetic_fnode", 3, 3)
    data = df.FlowData()
    assert node.add(data).index == 0
    assert [output.index for output in node.sub(data, data)] == [1, 2]
    with pytest.raises(df.DfException):
        node.add(data, data)
    with pytest.raises(AttributeError):
        node.plain(data)
    assert node._impl.options.threads == 2
    with pytest.raises(TypeError, match="should not be called"):
        Arithmetic(5)


def test_a_workspace_tells_who_owns_which_ports(folder) -> None:
    df.finalize()
    Arithmetic.fnode(1)
    config = json.loads((folder / "Arithmetic_fnode_ws" / "func_arithmetic.json").read_text(encoding="utf-8"))
    assert [(f["func_name"], f["inputs_index"], f["outputs_index"]) for f in config["func_list"]] == [
        ("add", [0], [0]), ("sub", [1, 2], [1, 2])
    ]
    assert (config["input_num"], config["output_num"], config["target_bin"]) == (3, 3, "libfunc_arithmetic.so")
    assert config["workspace"] == str((folder / "Arithmetic_fnode_ws").resolve()) and config["heavy_load"] is True
    assert (folder / "Arithmetic_fnode_ws" / "src_python" / "Arithmetic.pkl").stat().st_size > 0
    assert config["running_resources_info"] == [{"type": "memory", "num": 100}, {"type": "cpu", "num": 2}]
    add.fnode()
    assert (folder / "add_fnode_ws" / "func_add.json").exists()
