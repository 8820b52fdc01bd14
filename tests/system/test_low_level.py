"""Hand-written classes of the low-level API run as nodes."""

from __future__ import annotations

import numpy as np
import pytest

import dflow_core as df
from dflow_core.message import FlowMsg
from dflow_core.udf import MetaParams, MetaRunContext


class Worker:
    """Doubles, sums, passes raw bytes on, and says no."""

    @df.init_wrapper()
    def init_flow_func(self, meta_params: MetaParams) -> int:
        code, self.factor = meta_params.get_attr_int("factor")
        return code

    @df.proc_wrapper("i0,o0,o1")
    def scale(self, run_context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        array = inputs[0].get_tensor()
        if array is None:
            return 9900001
        out = run_context.alloc_tensor_msg(array.shape, np.int64)
        target = out.get_tensor()
        target[...] = array * self.factor
        out.set_end_time(77)
        assert run_context.set_output(0, out) == 0
        assert run_context.set_output(5, out) == 164000
        raw = run_context.alloc_raw_data_msg(4)
        raw.get_raw_data()[:] = run_context.get_user_data(4)
        return run_context.set_output(1, raw)


def graph(mode: str, **params: object) -> df.FlowGraph:
    x = df.FlowData("x")
    point = df.FuncProcessPoint(py_func=Worker)
    for name, value in params.items():
        point.set_init_param(name, value)
    return df.FlowGraph([point.fnode(1, 2, "worker")(x)], mode=mode)


@pytest.mark.parametrize("mode", ["inline", "process"])
def test_hand_written_class_runs(mode: str) -> None:
    with graph(mode, factor=3) as running:
        running.feed({"x": np.arange(3)}, info=df.FeedInfo(start_time=5, user_data=b"abcd"))
        (scaled, raw), info = running.fetch(with_info=True, timeout=30)  # type: ignore[misc]
        assert scaled.tolist() == [0, 3, 6] and bytes(raw) == b"abcd"
        assert (info.start_time, info.end_time) == (5, 77)
        with pytest.raises(df.NodeError, match="9900001"):
            running({"no": "tensor"}, timeout=30)
    df.finalize()


def test_init_that_says_no_is_an_error_at_start() -> None:
    with pytest.raises(df.DflowError, match="164001"):
        graph("inline").start()
