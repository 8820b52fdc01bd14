"""Deployed graphs through the interface alone; each one shows many things, as starting processes costs time."""

from __future__ import annotations

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from dataflow.utils import utils as helpers
from dataflow.utils.msg_type_register import MsgTypeRegister

LIMIT = 20000
FAILED = 0xFFFFFFFF


@df.pyflow
def double(x):
    return df.Tensor(x.numpy() * 2)


@df.pyflow(num_returns=2)
def exchange(a, b):
    return b, a


@df.pyflow
class Counter:
    def __init__(self, start):
        self.count = start

    @df.method()
    def add(self, x):
        self.count += 1
        return df.Tensor(x.numpy() + self.count)

    @df.method(num_returns=2)
    def where(self, x):
        return df.get_running_instance_id(), (df.get_running_instance_num(), df.get_running_device_id())


class Scale:
    @ff.init_wrapper()
    def init_flow_func(self, params):
        code, self.factor = params.get_attr_int("factor")
        return code

    @ff.proc_wrapper("i0,o0")
    def scale(self, context, msgs):
        tensor = msgs[0].get_tensor()
        if tensor.numpy()[0] < 0:
            return 9900007
        msg = context.alloc_tensor_msg(tensor.get_shape(), df.DT_FLOAT)
        msg.get_tensor().numpy()[...] = tensor.numpy() * self.factor
        msg.set_end_time(msg.get_start_time() + 1)
        return context.set_output(0, msg)


def values(tensors: list[df.Tensor]) -> list[object]:
    return [tensor.numpy().tolist() for tensor in tensors]


def test_tensors_pass_through_functions_methods_and_hand_written_classes(started, capsys) -> None:
    a, b = df.FlowData(schema=df.TensorDesc(df.DT_FLOAT, [2]), name="a"), df.FlowData(name="b")
    point = df.FuncProcessPoint(py_func=Scale)
    point.set_init_param("factor", 10)
    scale = df.FlowNode(1, 1)
    scale.add_process_point(point)
    counter = Counter.fnode(5)
    scaled = scale(counter.add(double.fnode()(a)))
    graph = df.FlowGraph([scaled, *counter.where(b), scaled])  # an output may stand there twice
    info = df.FlowInfo(3, 4)
    info.set_user_data(b"user")
    assert graph.feed_data({a: np.ones(2), b: 1}, info) == 0
    tensors, got, code = graph.fetch_data([0], LIMIT)
    assert (values(tensors), code) == ([[80.0, 80.0]], 0)
    assert (got.start_time, got.end_time, got.transaction_id, bytes(got.user_data[:5]), got.data_size) == (
        3, 4, 1, b"user\0", 0)
    assert graph.fetch([1, 2], LIMIT) == ([0, (1, 0)], 0)
    assert graph.feed_data({a: np.ones(2), b: 1}) == 0
    (one, *_, two), code = graph.fetch(timeout=LIMIT)
    assert (values([one, two]), code) == ([[90.0, 90.0]] * 2, 0)
    # what is refused is refused before it is fed
    assert graph.feed_data({a: np.ones(3), b: 1}) == 145021
    assert graph.feed_data({a: np.ones(2)}) == graph.feed_data({}) == graph.feed({}) == 145000
    assert graph.feed({a: df.Tensor([1, 2]), b: 1}) == 145000
    assert graph.feed_data({a: [1.0, 2.0], b: 1}, timeout=-2) == FAILED
    assert graph.fetch_data([5]) [2] == graph.fetch([5])[1] == 145000
    assert graph.fetch_data([0, 0])[2] == FAILED
    assert graph.fetch_data(timeout=0)[2] == 207013
    assert graph.fetch(timeout=10) == ([], 545601)
    with pytest.raises(TypeError):
        graph.fetch(["a"])
    with pytest.raises(ValueError, match="convert"):
        graph.feed_data({a: ["x", "y"], b: 1})
    # a code of the function's own reaches the caller, and the graph goes on
    assert graph.feed_data({a: [-9.0, 0.0], b: 1}) == 0
    assert graph.fetch_data(timeout=LIMIT)[2] == 9900007
    assert graph.feed_data({a: [1.0, 0.0], b: 1}) == 0
    assert values(graph.fetch_data([3], LIMIT)[0]) == [[110.0, 90.0]]
    assert "9900007" in capsys.readouterr().out
    with pytest.raises(df.DfException):
        graph.set_contains_n_mapping_node(True)
    df.finalize()
    with pytest.raises(AttributeError):
        graph.fetch_data(timeout=0)


@df.pyflow(num_returns=2, choice_output=lambda item: item is not None)
def odd_and_all(number):
    return (number if number.numpy() % 2 else None), number


@pytest.mark.parametrize(("drop", "wanted"), [(False, [345104, [1, 1]]), (True, [[1, 1]])])
def test_aligned_outputs_come_together_or_not_at_all(started, drop, wanted) -> None:
    number = df.FlowData()
    graph = df.FlowGraph(list(odd_and_all.fnode()(number)))
    for wrong in [(1025, -1), (-1, -1), (10, 0), (10, 600001)]:
        with pytest.raises(df.DfException):
            graph.set_inputs_align_attrs(*wrong)
    assert graph.set_inputs_align_attrs(10, 20000, drop) is None
    for value in (0, 1):
        assert graph.feed_data({number: value}) == 0
    found = []
    for _ in wanted:
        tensors, _info, code = graph.fetch_data(timeout=LIMIT)
        found.append(code or values(tensors))
    assert found == wanted
    with pytest.raises(df.DfException):
        graph.set_inputs_align_attrs(10, 100)
    with pytest.raises(df.DfException):
        graph.set_exception_catch(True)


def test_aligned_outputs_wait_for_inputs_that_are_fed_apart(started) -> None:
    first, second = df.FlowData(), df.FlowData()
    graph = df.FlowGraph([odd_and_all.fnode()(first)[1], odd_and_all.fnode()(second)[1]])
    graph.set_inputs_align_attrs(10, 20000)
    assert graph.feed_data({first: 1}, partial_inputs=True) == 0
    assert graph.fetch_data(timeout=200)[2] == 545601
    assert graph.feed_data({second: 2}, partial_inputs=True) == 0
    tensors, _info, code = graph.fetch_data(timeout=LIMIT)
    assert (values(tensors), code) == ([1, 2], 0)


class Celsius:
    def __init__(self, degrees: float) -> None:
        self.degrees = degrees


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


@df.pyflow
def moved(point):
    return Point(point.x + 1)


def test_objects_of_registered_classes_travel_as_messages_of_their_own_type(started) -> None:
    register = helpers.get_msg_type_register()
    own = MsgTypeRegister()
    helpers.set_msg_type_register(own)
    try:
        own.register(1030, Point, lambda point: bytes([point.x]), lambda buffer: Point(buffer[0]))
        a = df.FlowData()
        graph = df.FlowGraph([moved.fnode()(a)])
        assert graph.feed({a: Point(5)}) == 0
        (point,), code = graph.fetch(timeout=LIMIT)
        assert (code, type(point), point.x) == (0, Point, 6)
        # where nobody knows the type, it cannot be read
        assert graph.feed({a: Point(6)}) == 0
        helpers.set_msg_type_register(MsgTypeRegister())
        assert graph.fetch(timeout=LIMIT) == ([], 145000)
    finally:
        helpers.set_msg_type_register(register)


def test_objects_arrays_texts_and_nothing_pass_through(started) -> None:
    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    graph = df.FlowGraph(list(exchange.fnode()(a, b)))
    assert graph.feed({a: {"x": [1, 2]}, b: np.arange(3)}) == 0
    (array, obj), code = graph.fetch(timeout=LIMIT)
    assert code == 0 and isinstance(array, np.ndarray) and array.tolist() == [0, 1, 2] and obj == {"x": [1, 2]}
    assert graph.feed({a: None, b: df.Tensor(np.array(["a", "bc"]))}) == 0
    (texts, nothing), code = graph.fetch(timeout=LIMIT)
    assert code == 0 and texts.numpy(True).tolist() == ["a", "bc"] and nothing is None
    # memory that is filled by the caller goes without a copy; feed_data lets the caller fill it again
    tensor = df.alloc_tensor([2], df.DT_INT32)
    for value in (1, 2):
        tensor.numpy()[...] = value
        assert graph.feed_data({a: tensor, b: 5}) == 0
        assert values(graph.fetch_data(timeout=LIMIT)[0]) == [5, [value, value]]
    assert graph.feed({a: tensor, b: Celsius(3.5)}) == 0
    tensor.numpy()[...] = 9  # what was handed over is not changed
    (celsius, same), code = graph.fetch(timeout=LIMIT)
    assert code == 0 and celsius.degrees == 3.5 and same.numpy().tolist() == [2, 2]
    same.numpy()[0] = 5
    assert same.numpy().tolist() == [5, 2]
    # the end of a sequence is an empty message with a flag
    assert graph.feed_data({}, df.FlowInfo(flow_flags=df.FlowFlag.DATA_FLOW_FLAG_EOS)) == 0
    tensors, info, code = graph.fetch_data(timeout=LIMIT)
    assert (tensors, info.flow_flags, code) == ([], 1, 0)


class Coded:
    @ff.proc_wrapper("i0,o0")
    def give(self, context, msgs):
        msg = context.alloc_tensor_msg([1], df.DT_INT8)
        msg.set_ret_code(9900001)
        return context.set_output(0, msg)


class Raw:
    @ff.proc_wrapper("i0,o0")
    def give(self, context, msgs):
        msg = context.alloc_raw_data_msg(4)
        msg.get_raw_data()[:] = bytes(context.get_user_data(4))
        msg.set_msg_type(2000)
        return context.set_output(0, msg)


def test_a_code_on_a_message_concerns_its_output_only_and_raw_messages_have_types(started) -> None:
    register = helpers.get_msg_type_register()
    own = MsgTypeRegister()
    helpers.set_msg_type_register(own)
    try:
        own.register(2000, bytearray, bytes, bytearray)
        datas, outputs = [], []
        for clz in (Coded, Raw):
            node = df.FlowNode(1, 1)
            node.add_process_point(df.FuncProcessPoint(py_func=clz))
            datas.append(df.FlowData(name=clz.__name__))
            outputs.append(node(datas[-1]))
        graph = df.FlowGraph(outputs)
        info = df.FlowInfo()
        info.set_user_data(b"user")
        assert graph.feed_data(dict.fromkeys(datas, 1), info) == 0
        assert graph.fetch_data([0], LIMIT)[2] == 9900001
        assert graph.fetch([1], LIMIT) == ([bytearray(b"user")], 0)
    finally:
        helpers.set_msg_type_register(register)


def test_a_feed_without_room_says_so_and_loses_nothing(started) -> None:
    x = df.FlowData()
    graph = df.FlowGraph([double.fnode()(x)])
    fed = 0
    while (code := graph.feed_data({x: fed}, timeout=0)) == 0:
        fed += 1
        assert fed < 5000
    assert code == 207014
    found = [graph.fetch_data(timeout=LIMIT)[0][0].numpy().item() for _ in range(fed)]
    assert found == [2 * value for value in range(fed)]
    assert graph.feed_data({x: 1}, timeout=LIMIT) == 0 and graph.fetch_data(timeout=LIMIT)[2] == 0


def test_models_and_batches_are_chained(started, models) -> None:
    x = df.FlowData(schema=df.TensorDesc(df.DT_FLOAT, [3]), name="x")
    y = df.FlowData(name="y")
    add = df.GraphProcessPoint(df.Framework.ONNX, str(models / "add_float.onnx")).fnode(2, 1)
    batched = df.FlowNode(1, 1)
    point = df.FuncProcessPoint(py_func=double)
    batched.add_process_point(point)
    batched.map_input(0, point, 0, [df.CountBatch(2)])
    graph = df.FlowGraph([batched(add(x, y))])
    for k in (1, 2):
        assert graph.feed_data({x: [k] * 3, y: np.full(3, 10, np.float32)}, df.FlowInfo(transaction_id=10 * k)) == 0
    tensors, info, code = graph.fetch_data(timeout=LIMIT)
    assert (values(tensors), info.transaction_id, code) == ([[[22.0] * 3, [24.0] * 3]], 20, 0)
