"""Inputs that functions take from: times, codes and values, without an executor."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Iterator

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from dataflow.calls import Call, Setup
from dataflow.flow_func import flowfunc_wrapper as fw
from dataflow.flow_func.queues import ValueQueue
from dflow_core import udf
from dflow_core.errors import AbortError
from dflow_core.message import FlowMsg, MsgInfo, encode
from dflow_core.spi import InputQueue


class Source(InputQueue):
    """Gives messages; then nothing, or the end."""

    depth = 4

    def __init__(self, *values: object, ended: bool = False) -> None:
        self.msgs = deque(v if isinstance(v, FlowMsg) else encode(v, MsgInfo()) for v in values)
        self.ended = ended
        self.waited: list[float | None] = []

    def get(self, timeout: float | None = None) -> FlowMsg | None:
        self.waited.append(timeout)
        if not self.msgs and self.ended:
            raise AbortError("the end")
        return self.msgs.popleft() if self.msgs else None

    def level(self) -> int:
        return len(self.msgs)


def of_messages(source: Source) -> ff.FlowMsgQueue:
    return ff.FlowMsgQueue(fw.FlowMsgQueue(udf.MessageQueue(source)))


def of_values(source: Source) -> ff.FlowMsgQueue:
    return ff.FlowMsgQueue(ValueQueue(udf.FlowMsgQueue(source)))


@pytest.mark.parametrize("make", [of_messages, of_values])
def test_values_come_out_as_they_were_sent(make) -> None:
    source = Source(np.arange(2), None, {"a": 1})
    taken = make(source)
    assert (taken.qsize(), taken.maxsize, taken.empty(), taken.full()) == (3, 4, False, False)
    tensor = taken.get()
    assert tensor.numpy().tolist() == [0, 1] and tensor.get_shape() == [2]
    assert taken.get(timeout=1500) is None
    assert taken.get_nowait() == {"a": 1}
    assert source.waited == [None, 1.5, 0.0]
    assert taken.empty()


@pytest.mark.parametrize("make", [of_messages, of_values])
def test_nothing_in_time_is_empty(make) -> None:
    for call in [{"timeout": 10}, {"block": False}, {"timeout": 0}]:
        with pytest.raises(queue.Empty):
            make(Source()).get(**call)
    with pytest.raises(queue.Empty):  # whatever is wrong, where nobody waits
        make(Source(ended=True)).get_nowait()
    with pytest.raises(ValueError, match="non-negative"):
        make(Source()).get(timeout=-1)


@pytest.mark.parametrize("make", [of_messages, of_values])
def test_the_end_and_codes_are_exceptions_with_numbers(make) -> None:
    with pytest.raises(df.DfAbortException) as error:
        make(Source(ended=True)).get()
    assert error.value.error_code == 564004
    bad = encode(np.arange(2), MsgInfo())
    bad.set_ret_code(9900003)
    with pytest.raises(df.DfException) as error:
        make(Source(bad)).get()
    assert error.value.error_code == 9900003


@pytest.mark.parametrize("call", ["put", "put_nowait", "join", "task_done"])
def test_an_input_can_only_be_taken_from(call) -> None:
    with pytest.raises(NotImplementedError):
        getattr(of_messages(Source()), call)(*([1] if call.startswith("put") else []))


def test_a_native_queue_by_itself_is_empty() -> None:
    native = fw.FlowMsgQueue()
    assert (native.dequeue(5), native.depth(), native.size()) == ((564001, None), 0, 0)
    source = Source(np.arange(2))
    code, msg = fw.FlowMsgQueue(udf.MessageQueue(source)).dequeue(1000)
    assert (code, msg.get_tensor().get_shape(), source.waited) == (0, [2], [1.0])


def test_functions_get_queues_whole() -> None:
    @df.pyflow(stream_input="Queue")
    def first(numbers):
        return numbers.get()

    class Hand:
        @ff.proc_wrapper("i0,o0,stream_input")
        def work(self, context, queues):
            return context.set_output(0, queues[0].get().numpy())

    context = fw.MetaRunContext()
    assert first(context, [fw.FlowMsgQueue(udf.MessageQueue(Source(np.arange(2))))]) == 0
    assert first(context, [fw.FlowMsgQueue(udf.MessageQueue(Source(ended=True)))]) == 0  # a good end
    assert Hand().work(context, [fw.FlowMsgQueue(udf.MessageQueue(Source(np.arange(2))))]) == 0


def test_a_loop_that_takes_and_yields_ends_in_good_order() -> None:
    def each(numbers):
        while True:
            yield numbers.get()

    call = Call(Setup(None, df.msg_type_register), each, 1, "each")
    results = call(udf.FlowMsgQueue(Source(np.arange(2), ended=True)))
    assert isinstance(results, Iterator) and np.array_equal(next(results), np.arange(2))
    with pytest.raises(AbortError):  # what the core knows as the end, and no failure
        next(results)
