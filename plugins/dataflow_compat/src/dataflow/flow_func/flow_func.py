"""What a hand-written function gets: messages, parameters, and a run context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dataflow import codes
from dataflow.data_type import DType, _np_dtype_to_dflow_dtype
from dataflow.flow_func import flowfunc_wrapper as native
from dataflow.flow_func.balance import AffinityPolicy, BalanceConfig
from dataflow.runtime import numpy_type_of
from dataflow.tensor import Tensor
from dataflow.utils import log
from dataflow.utils.errors import DfException
from dflow_core import udf
from dflow_core.message import USER_DATA_SIZE
from dflow_core.types import Array

__all__ = [
    "AffinityPolicy",
    "BalanceConfig",
    "FlowFuncLogger",
    "FlowMsg",
    "MetaRunContext",
    "PyMetaParams",
    "logger",
]

MAX_USER_DATA_SIZE: Final = USER_DATA_SIZE
DEBUG_LOG: Final = native.DEBUG_LOG
RUN_LOG: Final = native.RUN_LOG
DEBUG: Final = native.DEBUG
INFO: Final = native.INFO
WARN: Final = native.WARN
ERROR: Final = native.ERROR

FlowFuncLogger = udf.FlowFuncLogger
logger = FlowFuncLogger()

_USER_CODES = range(9900000, 10000000)


class FlowMsg:
    """A message.

    Args:
        flow_msg: The native message.
    """

    def __init__(self, flow_msg: native.FlowMsg) -> None:
        self._inner = flow_msg

    @property
    def inner(self) -> native.FlowMsg:
        """The native message."""
        return self._inner

    def get_msg_type(self) -> native.MsgType | int:
        """What it carries."""
        return self._inner.get_msg_type()

    def set_msg_type(self, msg_type: int) -> None:
        """Say what it carries."""
        self._inner.set_msg_type(msg_type)

    def get_tensor(self) -> Tensor | None:
        """Its tensor, without a copy; None for an empty or raw message."""
        tensor = self._inner.get_tensor()
        return None if tensor is None else Tensor.over(tensor.native_array(), in_function=True)

    def get_raw_data(self) -> memoryview | None:
        """Its bytes; those of a message of the function's own can be written. None for an empty one."""
        return self._inner.get_raw_data()

    def get_ret_code(self) -> int:
        """Its code; 0 is good."""
        return self._inner.get_ret_code()

    def set_ret_code(self, ret_code: int) -> None:
        """Set its code; users have 9900000 to 9999999, others are told in the log."""
        if ret_code and ret_code not in _USER_CODES:
            log.warning("code %d is not one of the user's (9900000 to 9999999)", ret_code)
        self._inner.set_ret_code(ret_code)

    def get_start_time(self) -> int:
        """Time stamp of the start."""
        return self._inner.get_start_time()

    def set_start_time(self, start_time: int) -> None:
        """Set the time stamp of the start."""
        self._inner.set_start_time(start_time)

    def get_end_time(self) -> int:
        """Time stamp of the end."""
        return self._inner.get_end_time()

    def set_end_time(self, end_time: int) -> None:
        """Set the time stamp of the end."""
        self._inner.set_end_time(end_time)

    def get_flow_flags(self) -> int:
        """Flags: FLOW_FLAG_EOS, FLOW_FLAG_SEG."""
        return self._inner.get_flow_flags()

    def set_flow_flags(self, flow_flags: int) -> None:
        """Set the flags."""
        self._inner.set_flow_flags(flow_flags)

    def set_route_label(self, route_label: int) -> None:
        """Set what decides which instance gets it; 0 is nothing."""
        self._inner.set_route_label(route_label)

    def get_transaction_id(self) -> int:
        """Its transaction."""
        return self._inner.get_transaction_id()

    def set_transaction_id(self, transaction_id: int) -> None:
        """Set its transaction; 0 lets the framework say."""
        self._inner.set_transaction_id(transaction_id)

    def __repr__(self) -> str:
        return repr(self._inner)


class PyMetaParams:
    """What a function can ask when it is initialised. Getters of attributes give (code, value); code 0 is good,
    164001 a missing attribute, 164002 one of another type.

    Args:
        meta_params: The native object.
    """

    def __init__(self, meta_params: native.MetaParams) -> None:
        self._inner = meta_params
        self.get_attr_int = meta_params.get_int64
        self.get_attr_int_list = meta_params.get_int64_vector
        self.get_attr_int_list_list = meta_params.get_int64_vector_vector
        self.get_attr_bool = meta_params.get_bool
        self.get_attr_bool_list = meta_params.get_bool_list
        self.get_attr_float = meta_params.get_float
        self.get_attr_float_list = meta_params.get_float_list
        self.get_attr_str = meta_params.get_string
        self.get_attr_str_list = meta_params.get_string_list
        self.get_attr_tensor_dtype = meta_params.get_tensor_dtype
        self.get_attr_tensor_dtype_list = meta_params.get_tensor_dtype_list

    def get_name(self) -> str:
        """Name of the node."""
        return self._inner.get_name()

    def get_input_num(self) -> int:
        """Inputs of the whole node."""
        return self._inner.get_input_number()

    def get_output_num(self) -> int:
        """Outputs of the whole node."""
        return self._inner.get_output_number()

    def get_work_path(self) -> str:
        """Folder of the unpacked function."""
        return self._inner.get_work_path()

    def get_running_device_id(self) -> int:
        """Number of the device."""
        return self._inner.get_running_device_id()

    def get_running_instance_id(self) -> int:
        """Number of this instance, from 0."""
        return self._inner.get_running_instance_id()

    def get_running_instance_num(self) -> int:
        """How many instances the node has."""
        return self._inner.get_running_instance_num()


class MetaRunContext:
    """What a function may do during a call.

    Args:
        run_context: The native object.
    """

    def __init__(self, run_context: native.MetaRunContext) -> None:
        self._inner = run_context
        self._user_data = bytearray(MAX_USER_DATA_SIZE)

    def alloc_tensor_msg(self, shape: Sequence[int], dtype: DType | npt.DTypeLike, align: int = 64) -> FlowMsg:
        """A tensor message to fill; its head is that of the current input.

        Args:
            shape: Dimensions.
            dtype: A DType or a numpy type.
            align: 32, 64, 128, 256, 512 or 1024.

        Raises:
            TypeError: no such element type.
            DfException: no memory, or another `align`.
        """
        numpy_type = numpy_type_of(dtype)
        return _made(self._inner.alloc_tensor_msg(shape, _np_dtype_to_dflow_dtype[np.dtype(numpy_type)], align))

    def alloc_raw_data_msg(self, size: int, align: int = 64) -> FlowMsg:
        """A raw message to fill through `get_raw_data`."""
        return _made(self._inner.alloc_raw_data_msg(size, align))

    def alloc_empty_data_msg(self) -> FlowMsg:
        """A message without data."""
        return FlowMsg(self._inner.alloc_empty_msg(native.MSG_TYPE_TENSOR_DATA))

    def to_flow_msg(self, tensor: Tensor) -> FlowMsg:
        """A message around a tensor."""
        return FlowMsg(self._inner.to_flow_msg(native.Tensor(tensor._impl)))

    def set_output(
        self, index: int, output: FlowMsg | native.FlowMsg | Array | None, balance_config: BalanceConfig | None = None
    ) -> int:
        """Send to an output of the node; any number of times a call.

        Args:
            index: Output of the node.
            output: A message, or an array, which is copied. None, which is no message, is passed over.
            balance_config: Its place, where messages are dealt out.

        Returns:
            0, or 164000 if the output is not this function's.

        Raises:
            TypeError: an array of an element type tensors cannot have.
        """
        if output is None:
            log.warning("set_output(%d, None): nothing is sent", index)
            return codes.FUNC_SUCCESS
        inner = None if balance_config is None else balance_config.get_inner_config()
        return self._inner.set_output(index, self._native_of(output), inner)

    def set_multi_outputs(
        self, index: int, outputs: Sequence[FlowMsg | native.FlowMsg | Array], balance_config: BalanceConfig
    ) -> int:
        """Send several messages to one output, dealt out as the config says.

        Raises:
            TypeError: an element that is neither a message nor an array.
        """
        msgs = [self._native_of(output) for output in outputs]
        return self._inner.set_multi_outputs(index, msgs, balance_config.get_inner_config())

    def run_flow_model(
        self, model_key: str, input_msgs: Sequence[FlowMsg], timeout: int
    ) -> tuple[int, list[FlowMsg]]:
        """Call what was registered by `add_invoked_closure`, and wait for what it gives.

        Args:
            model_key: Its key.
            input_msgs: One message for each of its inputs.
            timeout: Milliseconds; -1 has no limit.

        Returns:
            0 and one message for each output; or a code and nothing.
        """
        code, msgs = self._inner.run_flow_model(model_key, [msg.inner for msg in input_msgs], timeout)
        return code, [FlowMsg(msg) for msg in msgs]

    def get_user_data(self, size: int, offset: int = 0) -> bytearray:
        """User data of the current input.

        Args:
            size: Bytes wanted.
            offset: Where they begin.

        Returns:
            `size` bytes; zeros if they do not lie within the 64.
        """
        code = self._inner.get_user_data(self._user_data, size, offset)
        return bytearray(MAX_USER_DATA_SIZE) if code else self._user_data[:size]

    def raise_exception(self, exception_code: int, user_context_id: int) -> None:
        """Tell every function of the scope that the current transaction has failed.

        Args:
            exception_code: What `get_exception` gives them.
            user_context_id: The same.
        """
        self._inner.raise_exception(exception_code, user_context_id)

    def get_exception(self) -> tuple[bool, int, int]:
        """An exception another function raised: whether there is one, its code and its context id; read once."""
        return self._inner.get_exception()

    def _native_of(self, output: object) -> native.FlowMsg:
        if isinstance(output, FlowMsg):
            return output.inner
        if isinstance(output, native.FlowMsg):
            return output
        if isinstance(output, np.ndarray):
            msg = self.alloc_tensor_msg(output.shape, output.dtype)
            tensor = msg.inner.get_tensor()
            assert tensor is not None
            np.copyto(tensor.native_array(), output)
            return msg.inner
        raise TypeError(f"an output must be a message or an array, got {type(output).__name__}")

    def __repr__(self) -> str:
        return "MetaRunContext()"


def _made(msg: native.FlowMsg | None) -> FlowMsg:
    if msg is None:
        raise DfException("no memory for the message", codes.FUNC_FAILED)
    return FlowMsg(msg)


