"""One call of a `@pyflow` function with messages, as upstream's wrapper makes it: messages in, a code out."""

from __future__ import annotations

import traceback
import types
from collections.abc import Sequence

from dataflow import codes
from dataflow.flow_func import flowfunc_wrapper as native
from dataflow.flow_func.queues import FlowMsgQueue, NativeQueue
from dataflow.packages import Function
from dataflow.tensor import Tensor
from dataflow.utils import log
from dataflow.utils.errors import DfAbortException, DfException
from dataflow.values import object_of, to_core
from dflow_core.message import MsgInfo, MsgType, encode

__all__ = ["run_entry"]

_RESERVED = range(2, 1023)


def run_entry(function: Function, run_context: object, inputs: Sequence[object]) -> int:
    """Call a function with messages and send what it gives.

    Args:
        function: The function.
        run_context: Where outputs go.
        inputs: One message for each parameter.

    Returns:
        0, or the code of what went wrong: 564000, or 164000 for something that is no message.
    """
    assert isinstance(run_context, native.MetaRunContext), f"no run context: {run_context!r}"
    values: list[object] = []
    for msg in inputs:
        if isinstance(msg, NativeQueue):
            values.append(FlowMsgQueue(msg))
            continue
        if not isinstance(msg, native.FlowMsg):
            return codes.FUNC_ERR_PARAM_INVALID
        if msg.get_ret_code() or int(msg.get_msg_type()) in _RESERVED:
            return codes.FUNC_FAILED
        values.append(_value(msg))
    try:
        result = function.func(*values)
        results = result if isinstance(result, types.GeneratorType) else (result,)
        for item in results:
            code = _send(function, run_context, item)
            if code:
                return code
    except DfAbortException as error:
        log.warning("%s was broken off: %s", function.name, error)
    except Exception:
        traceback.print_exc()
        return codes.FUNC_FAILED
    return codes.FUNC_SUCCESS


def _value(msg: native.FlowMsg) -> object:
    try:
        found = object_of(msg)
    except DfException:
        return msg.get_raw_data()
    if isinstance(found, Tensor):
        return Tensor.over(found._impl, in_function=True)
    return found


def _send(function: Function, context: native.MetaRunContext, result: object) -> int:
    items: Sequence[object] = (result,)
    if function.outputs > 1:
        if not isinstance(result, tuple) or len(result) != function.outputs:
            log.error("%s returned %r, expected a tuple of %d", function.name, result, function.outputs)
            return codes.FUNC_FAILED
        items = result
    for index, item in enumerate(items):
        if function.choice is not None and not function.choice(item):
            continue
        if context.set_output(index, _message(context, item)):
            return codes.FUNC_FAILED
    return codes.FUNC_SUCCESS


def _message(context: native.MetaRunContext, item: object) -> native.FlowMsg:
    if item is None:
        return context.alloc_empty_msg(MsgType.TENSOR)
    value = to_core(item)
    if isinstance(item, Tensor):
        return context.to_flow_msg(native.Tensor(item._impl))
    return native.FlowMsg(encode(value, MsgInfo()))
