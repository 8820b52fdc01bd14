"""Decorators of hand-written functions: `@proc_wrapper("i0,o0")` and `@init_wrapper()`."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Sequence

import dflow_core
from dataflow import codes
from dataflow.flow_func import flowfunc_wrapper as native
from dataflow.flow_func.flow_func import FlowMsg, MetaRunContext, PyMetaParams
from dataflow.flow_func.func_register import FlowFuncRegister
from dataflow.flow_func.queues import FlowMsgQueue, NativeQueue
from dataflow.utils import log
from dataflow.utils.errors import DfAbortException, DfException
from dflow_core import message, udf
from dflow_core.errors import DflowError

__all__ = ["init_wrapper", "proc_wrapper"]

_Proc = Callable[..., int]
_Init = Callable[[object, PyMetaParams], int]


def proc_wrapper(func_list: str | None = None) -> Callable[[_Proc], Callable[..., int]]:
    """Mark a method `(self, run_context, input_flow_msgs)` as a function of a node.

    Args:
        func_list: The node's ports it owns, such as `"i0,i1,o0"`.

    Raises:
        DfException: the text is no list of ports.
    """

    def mark(func: _Proc) -> Callable[..., int]:
        @functools.wraps(func)
        def call(self: object, run_context: object, inputs: Sequence[object]) -> int:
            is_real = isinstance(run_context, udf.MetaRunContext)
            try:
                msgs = [_wrapped(item) for item in inputs]
                return func(self, MetaRunContext(_native_context(run_context)), msgs)
            except DfAbortException as error:
                log.warning("%s was broken off: %s", func.__qualname__, error)
                return codes.FUNC_SUCCESS
            except Exception:
                if is_real:
                    raise  # the executor ends the transaction, with this traceback
                traceback.print_exc()
                return codes.FUNC_FAILED

        if func_list is not None:
            try:
                dflow_core.proc_wrapper(func_list)(call)
            except DflowError as error:
                raise DfException(error, codes.FUNC_ERR_PARAM_INVALID) from error
            clz = func.__qualname__.split(".")[0]
            FlowFuncRegister.register_flow_func(func.__module__, clz, func.__name__, func_list)
        return call

    return mark


def init_wrapper() -> Callable[[_Init], Callable[..., int]]:
    """Mark the method `init_flow_func(self, meta_params)`, called once in the executor; it returns 0 if all is well."""

    def mark(func: _Init) -> Callable[..., int]:
        @functools.wraps(func)
        def call(self: object, meta_params: object) -> int:
            is_real = isinstance(meta_params, udf.MetaParams)
            inner = native.MetaParams(meta_params) if isinstance(meta_params, udf.MetaParams) else meta_params
            assert isinstance(inner, native.MetaParams)
            try:
                return func(self, PyMetaParams(inner))
            except Exception:
                if is_real:
                    raise
                traceback.print_exc()
                return codes.FUNC_FAILED

        return call

    return mark


def _native_context(context: object) -> native.MetaRunContext:
    if isinstance(context, udf.MetaRunContext):
        return native.MetaRunContext(context)
    assert isinstance(context, native.MetaRunContext), f"no run context: {context!r}"
    return context


def _wrapped(item: object) -> FlowMsg | FlowMsgQueue:
    if isinstance(item, udf.MessageQueue):
        return FlowMsgQueue(NativeQueue(item))
    if isinstance(item, NativeQueue):
        return FlowMsgQueue(item)
    msg = native.FlowMsg(item) if isinstance(item, message.FlowMsg) else item
    assert isinstance(msg, native.FlowMsg), f"no message: {item!r}"
    return FlowMsg(msg)
