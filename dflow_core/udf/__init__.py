"""User functions inside an executor: packaging, calling, and the low-level contexts."""

from dflow_core.udf.balance import AffinityPolicy, BalanceConfig
from dflow_core.udf.code_hash import fingerprint
from dflow_core.udf.importable import is_importable
from dflow_core.udf.logger import FlowFuncLogger, LogLevel, LogType, logger
from dflow_core.udf.meta import MetaParams, MetaRunContext
from dflow_core.udf.packaging import MethodSpec, PythonFunc, pack, unpack
from dflow_core.udf.pickling import goes_by_name
from dflow_core.udf.python_func import python_funcs
from dflow_core.udf.queues import FlowMsgQueue, InputOnlyQueue, MessageQueue

__all__ = [
    "AffinityPolicy",
    "BalanceConfig",
    "FlowFuncLogger",
    "FlowMsgQueue",
    "InputOnlyQueue",
    "LogLevel",
    "LogType",
    "MessageQueue",
    "MetaParams",
    "MetaRunContext",
    "MethodSpec",
    "PythonFunc",
    "fingerprint",
    "goes_by_name",
    "is_importable",
    "logger",
    "pack",
    "python_funcs",
    "unpack",
]
