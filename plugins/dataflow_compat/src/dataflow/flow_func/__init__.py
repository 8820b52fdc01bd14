"""The side of functions (`import dataflow.flow_func as ff`): messages, contexts, decorators, codes."""

from typing import Final

from dataflow.flow_func.balance import AffinityPolicy, BalanceConfig
from dataflow.flow_func.flow_func import FlowFuncLogger, FlowMsg, MetaRunContext, PyMetaParams, logger
from dataflow.flow_func.flowfunc_wrapper import (
    FLOW_FLAG_EOS,
    FLOW_FLAG_SEG,
    MSG_TYPE_PICKLED_MSG,
    MSG_TYPE_RAW_MSG,
    MSG_TYPE_TENSOR_DATA,
    MSG_TYPE_TORCH_TENSOR_MSG,
    MSG_TYPE_USER_DEFINE_START,
)
from dataflow.flow_func.func_wrapper import init_wrapper, proc_wrapper
from dataflow.flow_func.queues import FlowMsgQueue

FLOW_FUNC_SUCCESS: Final = 0
FLOW_FUNC_ERR_PARAM_INVALID: Final = 164000
FLOW_FUNC_ERR_ATTR_NOT_EXITS: Final = 164001
FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH: Final = 164002
FLOW_FUNC_FAILED: Final = 564000
FLOW_FUNC_ERR_TIME_OUT_ERROR: Final = 564001
FLOW_FUNC_STATUS_REDEPLOYING: Final = 564003
FLOW_FUNC_STATUS_EXIT: Final = 564004
FLOW_FUNC_ERR_DRV_ERROR: Final = 564100
FLOW_FUNC_ERR_MEM_BUF_ERROR: Final = 564101
FLOW_FUNC_ERR_QUEUE_ERROR: Final = 564102
FLOW_FUNC_ERR_EVENT_ERROR: Final = 564103
FLOW_FUNC_ERR_USER_DEFINE_START: Final = 9900000
FLOW_FUNC_ERR_USER_DEFINE_END: Final = 9999999

__all__ = [
    "FLOW_FLAG_EOS",
    "FLOW_FLAG_SEG",
    "FLOW_FUNC_ERR_ATTR_NOT_EXITS",
    "FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH",
    "FLOW_FUNC_ERR_DRV_ERROR",
    "FLOW_FUNC_ERR_EVENT_ERROR",
    "FLOW_FUNC_ERR_MEM_BUF_ERROR",
    "FLOW_FUNC_ERR_PARAM_INVALID",
    "FLOW_FUNC_ERR_QUEUE_ERROR",
    "FLOW_FUNC_ERR_TIME_OUT_ERROR",
    "FLOW_FUNC_ERR_USER_DEFINE_END",
    "FLOW_FUNC_ERR_USER_DEFINE_START",
    "FLOW_FUNC_FAILED",
    "FLOW_FUNC_STATUS_EXIT",
    "FLOW_FUNC_STATUS_REDEPLOYING",
    "FLOW_FUNC_SUCCESS",
    "MSG_TYPE_PICKLED_MSG",
    "MSG_TYPE_RAW_MSG",
    "MSG_TYPE_TENSOR_DATA",
    "MSG_TYPE_TORCH_TENSOR_MSG",
    "MSG_TYPE_USER_DEFINE_START",
    "AffinityPolicy",
    "BalanceConfig",
    "FlowFuncLogger",
    "FlowMsg",
    "FlowMsgQueue",
    "MetaRunContext",
    "PyMetaParams",
    "init_wrapper",
    "logger",
    "proc_wrapper",
]
