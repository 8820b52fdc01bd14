"""What upstream's native module for functions has, over the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dataflow import codes
from dataflow.data_type import DType, get_python_dtype_from_dwrapper_dtype
from dataflow.data_wrapper import DataType
from dataflow.flow_func.natives import FlowBufferFactory, FlowFlag, FlowMsg, MsgType, Tensor
from dataflow.flow_func.queues import NativeQueue as FlowMsgQueue
from dataflow.runtime import numpy_type_of
from dataflow.tensor_descs import RuntimeTensorDesc, RuntimeTensorDescMsgProcessor
from dflow_core import udf
from dflow_core.errors import DflowError
from dflow_core.message import USER_DATA_SIZE
from dflow_core.types import DataType as CoreType

__all__ = [
    "AffinityPolicy",
    "BalanceConfig",
    "FlowBufferFactory",
    "FlowFlag",
    "FlowFuncLogLevel",
    "FlowFuncLogType",
    "FlowFuncLogger",
    "FlowMsg",
    "FlowMsgQueue",
    "MetaParams",
    "MetaRunContext",
    "MsgType",
    "RuntimeTensorDesc",
    "RuntimeTensorDescMsgProcessor",
    "Tensor",
    "init_func_datatype_manager",
]

_INT32, _UINT64 = range(-(2**31), 2**31), range(2**64)

FlowFuncLogType = udf.LogType
FlowFuncLogLevel = udf.LogLevel

MSG_TYPE_TENSOR_DATA = MsgType.MSG_TYPE_TENSOR_DATA
MSG_TYPE_RAW_MSG = MsgType.MSG_TYPE_RAW_MSG
MSG_TYPE_TORCH_TENSOR_MSG = MsgType.MSG_TYPE_TORCH_TENSOR_MSG
MSG_TYPE_USER_DEFINE_START = MsgType.MSG_TYPE_USER_DEFINE_START
MSG_TYPE_PICKLED_MSG = MsgType.MSG_TYPE_PICKLED_MSG
FLOW_FLAG_EOS = FlowFlag.FLOW_FLAG_EOS
FLOW_FLAG_SEG = FlowFlag.FLOW_FLAG_SEG
DEBUG_LOG = FlowFuncLogType.DEBUG_LOG
RUN_LOG = FlowFuncLogType.RUN_LOG
DEBUG = FlowFuncLogLevel.DEBUG
INFO = FlowFuncLogLevel.INFO
WARN = FlowFuncLogLevel.WARN
ERROR = FlowFuncLogLevel.ERROR


AffinityPolicy = udf.AffinityPolicy
NO_AFFINITY = AffinityPolicy.NO_AFFINITY
ROW_AFFINITY = AffinityPolicy.ROW_AFFINITY
COL_AFFINITY = AffinityPolicy.COL_AFFINITY


class FlowFuncLogger:
    """The logger with the names of the native module."""

    def __init__(self) -> None:
        self._core = udf.FlowFuncLogger()

    def get_log_header(self) -> str:
        """What stands before a line of this thread."""
        return self._core.get_log_header()

    def is_log_enable(self, log_type: object, log_level: object) -> bool:
        """Whether lines of a level are written."""
        return self._core.is_log_enable(log_type, log_level)

    def debug_log_debug(self, location: str, text: str) -> None:
        """Write for people who debug."""
        self._core.debug("%s%s", location, text)

    def debug_log_info(self, location: str, text: str) -> None:
        """Write for people who debug."""
        self._core.info("%s%s", location, text)

    def debug_log_warn(self, location: str, text: str) -> None:
        """Write about something odd."""
        self._core.warn("%s%s", location, text)

    def debug_log_error(self, location: str, text: str) -> None:
        """Write about something wrong."""
        self._core.error("%s%s", location, text)

    def run_log_info(self, location: str, text: str) -> None:
        """Write for people who operate."""
        self._core.run_info("%s%s", location, text)

    def run_log_error(self, location: str, text: str) -> None:
        """Write about something wrong, for people who operate."""
        self._core.run_error("%s%s", location, text)


class MetaParams:
    """What a function can ask when it is initialised.

    Args:
        core: The core's; without it everything is missing.
    """

    def __init__(self, core: udf.MetaParams | None = None) -> None:
        from dflow_core.spi import FuncParams

        self._core = udf.MetaParams(FuncParams("")) if core is None else core
        self.get_name = self._core.get_name
        self.get_int64 = self._core.get_attr_int
        self.get_int64_vector = self._core.get_attr_int_list
        self.get_int64_vector_vector = self._core.get_attr_int_list_list
        self.get_bool = self._core.get_attr_bool
        self.get_bool_list = self._core.get_attr_bool_list
        self.get_float = self._core.get_attr_float
        self.get_float_list = self._core.get_attr_float_list
        self.get_string = self._core.get_attr_str
        self.get_string_list = self._core.get_attr_str_list
        self.get_tensor_dtype = self._core.get_attr_tensor_dtype
        self.get_tensor_dtype_list = self._core.get_attr_tensor_dtype_list
        self.get_input_number = self._core.get_input_num
        self.get_output_number = self._core.get_output_num
        self.get_work_path = self._core.get_work_path
        self.get_running_device_id = self._core.get_running_device_id
        self.get_running_instance_id = self._core.get_running_instance_id
        self.get_running_instance_num = self._core.get_running_instance_num


class BalanceConfig:
    """Where in a matrix the messages of one output stand."""

    def __init__(self) -> None:
        self.core = udf.BalanceConfig(0, 0)

    def set_data_pos(self, data_pos: Sequence[tuple[int, int]]) -> None:
        """The row and column of each message."""
        self.core.set_data_pos([(int(row), int(col)) for row, col in data_pos])

    def set_balance_weight(self, rows: int, cols: int) -> None:
        """The size of the matrix."""
        self.core.row_num, self.core.col_num = rows, cols

    def set_affinity_policy(self, policy: udf.AffinityPolicy) -> None:
        """What goes to one instance."""
        self.core.affinity_policy = udf.AffinityPolicy(policy)


class MetaRunContext:
    """What a function may do during a call.

    Args:
        core: The core's context; without it nothing is sent anywhere, which serves to try a function out.
    """

    def __init__(self, core: udf.MetaRunContext | None = None) -> None:
        from dataflow.flow_func.trial import trial_context

        self._core = trial_context() if core is None else core

    def alloc_tensor_msg(self, shape: Sequence[int], dtype: DType | DataType | CoreType, align: int = 64
                         ) -> FlowMsg | None:
        """A tensor message to fill; None if there is no memory."""
        try:
            found = dtype if isinstance(dtype, DType) else get_python_dtype_from_dwrapper_dtype(dtype)
            return FlowMsg(self._core.alloc_tensor_msg(shape, numpy_type_of(found), align))
        except DflowError:
            return None

    def alloc_raw_data_msg(self, size: int, align: int = 64) -> FlowMsg | None:
        """A raw message to fill; None if there is no memory."""
        try:
            return FlowMsg(self._core.alloc_raw_data_msg(size, align))
        except DflowError:
            return None

    def alloc_empty_msg(self, msg_type: int = 0) -> FlowMsg:
        """A message without data."""
        return FlowMsg(self._core.alloc_empty_data_msg())

    def to_flow_msg(self, tensor: Tensor) -> FlowMsg:
        """A message around a tensor."""
        return FlowMsg(self._core.to_flow_msg(tensor.native_array()))

    def set_output(self, index: int, msg: FlowMsg | None, balance: BalanceConfig | None = None) -> int:
        """Send a message to an output of the node; 0, or 164000 if it is not the function's."""
        if msg is None:
            return codes.FUNC_SUCCESS
        return self._core.set_output(index, msg.core, None if balance is None else balance.core)

    def set_multi_outputs(self, index: int, msgs: Sequence[FlowMsg], balance: BalanceConfig) -> int:
        """Send messages to one output, each with its place in the matrix; 0, or 164000 if they cannot be there."""
        return self._core.set_multi_outputs(index, [msg.core for msg in msgs], balance.core)

    def run_flow_model(self, model_key: str, msgs: Sequence[FlowMsg], timeout: int) -> tuple[int, list[FlowMsg]]:
        """Call what was registered by `add_invoked_closure`: 0 and what it gives, or 564000 and nothing."""
        if timeout < -1:
            return codes.FUNC_FAILED, []
        code, found = self._core.run_flow_model(model_key, [msg.core for msg in msgs], timeout)
        return (codes.FUNC_FAILED, []) if code else (codes.FUNC_SUCCESS, [FlowMsg(msg) for msg in found])

    def get_user_data(self, buffer: bytearray, size: int, offset: int = 0) -> int:
        """Copy user data of the current input to the start of a buffer; 0, or 164000."""
        if size <= 0 or offset < 0 or offset + size > USER_DATA_SIZE or len(buffer) < size:
            return codes.FUNC_ERR_PARAM_INVALID
        buffer[:size] = self._core.get_user_data(size, offset)
        return codes.FUNC_SUCCESS

    def raise_exception(self, exception_code: int, user_context_id: int) -> None:
        """Tell every function of the scope that the current transaction has failed.

        Raises:
            TypeError: a code that has not 32 bits, or a context id that has not 64.
        """
        if exception_code not in _INT32 or user_context_id not in _UINT64:
            raise TypeError(f"exception code {exception_code!r} or context id {user_context_id!r} does not fit")
        self._core.raise_exception(exception_code, user_context_id)

    def get_exception(self) -> tuple[bool, int, int]:
        """An exception that another function raised: whether there is one, its code, its context id."""
        return self._core.get_exception()

    def __repr__(self) -> str:
        return "MetaRunContext()"


def init_func_datatype_manager(_table: Mapping[object, object]) -> None:
    """Upstream hands its table of types over here; ours is fixed, so there is nothing to do."""
    del _table
