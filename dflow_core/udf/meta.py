"""The low-level face of user functions: MetaParams and MetaRunContext (python-api.md sections 12.5 to 12.7).

Names, argument order and return codes are upstream's, so that hand-written functions run here unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dflow_core.errors import ClosedError, DflowError, NodeError, UsageError, WaitTimeoutError
from dflow_core.message import (
    ALIGN_FAILED,
    USER_DATA_SIZE,
    DataFlag,
    FlowMsg,
    HeapBlock,
    MsgInfo,
    MsgType,
    alloc_tensor,
    block_of,
    root_token,
)
from dflow_core.spi import FuncParams, RunContext
from dflow_core.types import Array, DataType, numpy_dtype_of
from dflow_core.udf.balance import BalanceConfig
from dflow_core.udf.codes import (
    ERR_ATTR_NOT_EXISTS,
    ERR_ATTR_TYPE_MISMATCH,
    ERR_PARAM_INVALID,
    ERR_TIME_OUT,
    FAILED,
    STATUS_EXIT,
    SUCCESS,
    USER_CODES,
)
from dflow_core.udf.logger import logger

_T = TypeVar("_T")
_ALIGNMENTS = (32, 64, 128, 256, 512, 1024)


class MetaParams:
    """What a function can ask when it is initialised. Getters give (code, value); code 0 is good.

    Args:
        params: What the executor knows.
        work_path: Folder of the unpacked function.
    """

    def __init__(self, params: FuncParams, work_path: str = "") -> None:
        self._params = params
        self._work_path = work_path

    def get_name(self) -> str:
        """Name of the node."""
        return self._params.name

    def get_input_num(self) -> int:
        """Inputs of the whole node."""
        return self._params.input_num

    def get_output_num(self) -> int:
        """Outputs of the whole node."""
        return self._params.output_num

    def get_work_path(self) -> str:
        """Folder of the unpacked function; "" for one that travelled as a pickle."""
        return self._work_path

    def get_running_device_id(self) -> int:
        """Number of the device."""
        return int(self._params.device.rpartition(":")[2] or 0)

    def get_running_instance_id(self) -> int:
        """Number of this instance, from 0."""
        return self._params.instance

    def get_running_instance_num(self) -> int:
        """How many instances the node has."""
        return self._params.instance_count

    def get_attr_int(self, name: str) -> tuple[int, int]:
        """An int parameter, or -1."""
        return self._get(name, int, -1)

    def get_attr_bool(self, name: str) -> tuple[int, bool]:
        """A bool parameter, or False."""
        return self._get(name, bool, False)

    def get_attr_float(self, name: str) -> tuple[int, float]:
        """A float parameter, or 0.0."""
        return self._get(name, float, 0.0)

    def get_attr_str(self, name: str) -> tuple[int, str]:
        """A str parameter, or ""."""
        return self._get(name, str, "")

    def get_attr_int_list(self, name: str) -> tuple[int, list[int]]:
        """A list of ints, or []."""
        return self._get_list(name, int)

    def get_attr_int_list_list(self, name: str) -> tuple[int, list[list[int]]]:
        """A list of lists of ints, or []."""
        code, value = self._find(name)
        if code:
            return code, []
        if isinstance(value, list) and all(_is_list_of(item, int) for item in value):
            return SUCCESS, value
        return ERR_ATTR_TYPE_MISMATCH, []

    def get_attr_bool_list(self, name: str) -> tuple[int, list[bool]]:
        """A list of bools, or []."""
        return self._get_list(name, bool)

    def get_attr_float_list(self, name: str) -> tuple[int, list[float]]:
        """A list of floats, or []."""
        return self._get_list(name, float)

    def get_attr_str_list(self, name: str) -> tuple[int, list[str]]:
        """A list of strings, or []."""
        return self._get_list(name, str)

    def get_attr_tensor_dtype(self, name: str) -> tuple[int, type[np.generic] | None]:
        """A data type as numpy type, or None."""
        code, value = self._get(name, DataType, DataType.UNDEFINED)
        return (ERR_ATTR_NOT_EXISTS, None) if code else (SUCCESS, numpy_dtype_of(value).type)

    def get_attr_tensor_dtype_list(self, name: str) -> tuple[int, list[type[np.generic]]]:
        """A list of data types as numpy types, or []."""
        code, value = self._get_list(name, DataType)
        return (ERR_ATTR_NOT_EXISTS, []) if code else (SUCCESS, [numpy_dtype_of(item).type for item in value])

    def _find(self, name: str) -> tuple[int, object]:
        if name not in self._params.attrs:
            return ERR_ATTR_NOT_EXISTS, None
        return SUCCESS, self._params.attrs[name]

    def _get(self, name: str, kind: type[_T], default: _T) -> tuple[int, _T]:
        code, value = self._find(name)
        if code:
            return code, default
        if not _is_a(value, kind):
            return ERR_ATTR_TYPE_MISMATCH, default
        return SUCCESS, value  # type: ignore[return-value]

    def _get_list(self, name: str, kind: type[_T]) -> tuple[int, list[_T]]:
        code, value = self._find(name)
        if code:
            return code, []
        if not _is_list_of(value, kind):
            return ERR_ATTR_TYPE_MISMATCH, []
        return SUCCESS, value  # type: ignore[return-value]


def _is_a(value: object, kind: type) -> bool:
    # bool is an int to Python, DataType too; an attribute is only what it was set as.
    return type(value) is kind or (kind is DataType and isinstance(value, DataType))


def _is_list_of(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(_is_a(item, kind) for item in value)


class MetaRunContext:
    """What a hand-written function may do during a call.

    Args:
        context: The executor's context.
        inputs: Messages of the call.
        outputs: The node's outputs that the function owns; None takes all from 0 on.
        balance: Whether the node is a `scatter` or a `gather` one; "" for neither.
        head: What messages inherit; the head of the first input that came if not given.
        exception: Code and number of an exception that another function has raised.
        names_answers: Whether a message that is sent says which one it answers, because there are no inputs.
    """

    def __init__(
        self, context: RunContext, inputs: Sequence[FlowMsg], outputs: Sequence[int] | None = None, balance: str = "",
        head: MsgInfo | None = None, exception: tuple[int, int] | None = None,
        names_answers: bool = False,
    ) -> None:
        self._context = context
        self._balance = balance
        self._names_answers = names_answers
        self._outputs = None if outputs is None else {port: i for i, port in enumerate(outputs)}
        came = next((msg.info for msg in inputs if msg.info.ret_code != ALIGN_FAILED), None)
        self._head = head or came or MsgInfo()
        self._exception = exception

    def alloc_tensor_msg(self, shape: Sequence[int], dtype: npt.DTypeLike | DataType, align: int = 64) -> FlowMsg:
        """A tensor message to fill in place through `get_tensor`; its head is inherited from the current input."""
        if align not in _ALIGNMENTS:
            raise UsageError(f"align {align} is not one of {_ALIGNMENTS}")
        resolved = numpy_dtype_of(dtype) if isinstance(dtype, DataType) else np.dtype(dtype)
        array = self._context.alloc(shape, resolved)
        return _WritableMsg.of(array, self._head.derive())

    def alloc_raw_data_msg(self, size: int, align: int = 64) -> FlowMsg:
        """A raw message of `size` bytes to fill through `get_raw_data`."""
        if align not in _ALIGNMENTS:
            raise UsageError(f"align {align} is not one of {_ALIGNMENTS}")
        info = self._head.derive(msg_type=MsgType.RAW, ret_code=self._head.ret_code)
        return FlowMsg(info, np.zeros(size, np.uint8))

    def alloc_empty_data_msg(self) -> FlowMsg:
        """A null message."""
        return FlowMsg(self._head.derive(data_flag=self._head.data_flag | DataFlag.NULL))

    def to_flow_msg(self, tensor: Array) -> FlowMsg:
        """A message around an array."""
        if block_of(tensor) is not None:
            return _WritableMsg.of(tensor, self._head.derive())
        copy = alloc_tensor(tensor.shape, tensor.dtype, HeapBlock)
        np.copyto(copy, tensor)
        return _WritableMsg.of(copy, self._head.derive())

    def set_output(
        self, index: int, output: FlowMsg | Array | None, balance_config: BalanceConfig | None = None
    ) -> int:
        """Send a message or an array to an output of the node.

        Args:
            index: Output of the whole node, as in `proc_wrapper("i0,o1")`.
            output: What is sent.
            balance_config: Which part it is of what is dealt out over instances; with one position.

        Returns:
            0, or 164000 if this function does not own the output, or the part cannot be sent this way.
        """
        if balance_config is not None:
            return self._send_parts(index, [output], balance_config)
        return self._send(index, output, {})

    def _send(self, index: int, output: FlowMsg | Array | None, labels: Mapping[str, object]) -> int:
        if self._outputs is not None:
            if index not in self._outputs:
                return ERR_PARAM_INVALID
            index = self._outputs[index]
        if output is None:
            return SUCCESS
        try:
            if isinstance(output, FlowMsg):
                payload = output.tensor if isinstance(output, _WritableMsg) else output
                if payload is output and self._names_answers:
                    self._context.send(index, output, like=output)
                    return SUCCESS
                self._context.send(index, payload, changes={**_changed_fields(self._head, output.info), **labels})
            else:
                self._context.send(index, output, changes=labels)
        except UsageError as error:
            if "does not exist" in error.message:
                return ERR_PARAM_INVALID
            raise
        return SUCCESS

    def set_multi_outputs(
        self, index: int, outputs: Sequence[FlowMsg | Array], balance_config: BalanceConfig | None = None
    ) -> int:
        """Send several messages to one output; they become parts of the transaction.

        Args:
            index: Output of the whole node.
            outputs: What is sent.
            balance_config: Which parts they are, with one position for each; see `BalanceConfig`.

        Returns:
            0, or 164000 where nothing is sent because of the output or the configuration.
        """
        if balance_config is not None:
            return self._send_parts(index, outputs, balance_config)
        codes = [self.set_output(index, output) for output in outputs]
        return next((code for code in codes if code), SUCCESS)

    def _send_parts(self, index: int, outputs: Sequence[FlowMsg | Array | None], config: BalanceConfig) -> int:
        fault = config.fault(self._balance, len(outputs))
        if fault is not None:
            logger.error(f"output {index}: {fault}")
            return ERR_PARAM_INVALID
        for output, labels in zip(outputs, config.labels()):
            code = self._send(index, output, {"data_label": labels.data, "route_label": labels.route})
            if code != SUCCESS:
                return code
        return SUCCESS

    def run_flow_model(
        self, model_key: str, input_msgs: Sequence[FlowMsg | Array], timeout: int
    ) -> tuple[int, list[FlowMsg]]:
        """Call a graph that was given to the node with `add_invoked_closure`, and wait for it.

        Args:
            model_key: What it is called by.
            input_msgs: One message for each of its inputs.
            timeout: Milliseconds; -1 waits until it ends.

        Returns:
            0 and a message for each output (a null message where a branch was not taken), or a code and nothing: 164000
            for a key or a number of inputs that is wrong, 564001 if it did not end in time, 564004 if the graph ends,
            the code of a function in there that gave one of its own, else 564000. What was wrong goes to the log.
        """
        values = [msg.tensor if isinstance(msg, _WritableMsg) else msg for msg in input_msgs]
        try:
            call = self._context.call_graph(model_key, values)
        except UsageError as error:
            return _refused(model_key, ERR_PARAM_INVALID, error)
        try:
            rows = call.results(None if timeout < 0 else timeout / 1000)
        except WaitTimeoutError as error:
            call.cancel()
            return _refused(model_key, ERR_TIME_OUT, error)
        except ClosedError as error:
            return _refused(model_key, STATUS_EXIT, error)
        except DflowError as error:
            code = error.ret_code if isinstance(error, NodeError) else 0
            return _refused(model_key, code if code in USER_CODES else FAILED, error)
        null = FlowMsg(self._head.derive(data_flag=self._head.data_flag | DataFlag.NULL))
        return SUCCESS, [msg or null for row in rows for msg in row]

    def raise_exception(self, exception_code: int, user_context_id: int) -> None:
        """End the transaction of the current input with a code, and tell every other function of the graph.

        Args:
            exception_code: Signed 32 bit; what the caller gets.
            user_context_id: Unsigned 64 bit; handed on.

        Raises:
            UsageError: the graph catches no exceptions, or the call has no input.
        """
        if not -(2**31) <= exception_code < 2**31 or not 0 <= user_context_id < 2**64:
            raise UsageError(f"exception {exception_code} with user context {user_context_id}: out of range")
        self._context.raise_exception(exception_code, user_context_id)

    def get_exception(self) -> tuple[bool, int, int]:
        """(True, code, user context id) where another function has raised an exception, once; else (False, 0, 0)."""
        found, self._exception = self._exception, None
        return (True, *found) if found is not None else (False, 0, 0)

    def get_user_data(self, size: int = USER_DATA_SIZE, offset: int = 0) -> bytes:
        """User data of the current input: `size` bytes from `offset`."""
        if size <= 0 or offset < 0 or offset + size > USER_DATA_SIZE:
            raise UsageError(f"user data has {USER_DATA_SIZE} bytes; {size} from {offset} do not lie in them")
        return self._head.user_data.ljust(USER_DATA_SIZE, b"\0")[offset : offset + size]

    def is_cancelled(self, msg: FlowMsg | None = None) -> bool:
        """Whether the transaction of a message was cancelled, so that nobody waits for what comes of it.

        Args:
            msg: Any message the function has; the current input where it is not given.
        """
        return self._context.cancelled if msg is None else self._context.is_cancelled(msg.info.trans_id)

    def get_transaction_id(self) -> int:
        """Transaction of the current input."""
        return self._head.trans_id


def _refused(key: str, code: int, error: DflowError) -> tuple[int, list[FlowMsg]]:
    logger.error("run_flow_model(%s): %s", key, error)
    return code, []


class _WritableMsg(FlowMsg):
    """A message whose tensor is still being filled."""

    __slots__ = ("tensor",)
    tensor: Array

    @classmethod
    def of(cls, array: Array, info: MsgInfo) -> _WritableMsg:
        msg = cls(info)
        msg.tensor = array
        return msg

    def get_tensor(self) -> Array | None:
        return self.tensor

    def get_raw_data(self) -> memoryview | None:
        return memoryview(self.tensor.view(np.uint8).reshape(-1))


_USER_FIELDS = ("ret_code", "start_time", "end_time", "flags", "route_label", "trans_id")


def _changed_fields(head: MsgInfo, info: MsgInfo) -> Mapping[str, object]:
    """Head fields the function set on a message of its own."""
    changes: dict[str, object] = {
        name: getattr(info, name) for name in _USER_FIELDS if getattr(info, name) != getattr(head, name)
    }
    if "trans_id" in changes:
        if info.trans_id == 0:
            del changes["trans_id"]
        else:
            changes["token"] = root_token(info.trans_id)
            changes["data_flag"] = info.data_flag
    return changes
