"""Inputs of functions that take queues instead of values."""

from __future__ import annotations

import queue

from dataflow import codes
from dataflow.flow_func.natives import FlowMsg
from dataflow.tensor import Tensor
from dataflow.utils.errors import DfAbortException, DfException
from dataflow.values import from_core, object_of
from dflow_core import udf
from dflow_core.errors import AbortError, MissingError, NodeError
from dflow_core.message import ALIGN_FAILED

__all__ = ["FlowMsgQueue", "NativeQueue", "ValueQueue"]

_ABORTED = (codes.FUNC_STATUS_REDEPLOYING, codes.FUNC_STATUS_EXIT)


class NativeQueue:
    """An input as the native module has it.

    Args:
        core: The core's queue of messages; one that stays empty if not given.
    """

    def __init__(self, core: udf.MessageQueue | None = None) -> None:
        self._core = core

    def dequeue(self, timeout: int = -1) -> tuple[int, FlowMsg | None]:
        """The next message and 0; or a code and nothing, or the message that carries the code.

        Args:
            timeout: Milliseconds; -1 has no limit, 0 looks once.
        """
        if self._core is None:
            return codes.FUNC_ERR_TIME_OUT_ERROR, None
        code, msg = self._core.dequeue(timeout)
        return code, None if msg is None else FlowMsg(msg)

    def depth(self) -> int:
        """How many messages can wait."""
        return 0 if self._core is None else self._core.depth()

    def size(self) -> int:
        """How many messages wait."""
        return 0 if self._core is None else self._core.size()

    def take(self, timeout: int) -> tuple[int, object]:
        """The next object and 0, or a code and nothing; the time as for `dequeue`."""
        code, msg = self.dequeue(timeout)
        return code, None if code or msg is None else _object(msg)


class ValueQueue(NativeQueue):
    """An input that gives values.

    Args:
        core: The core's queue.
    """

    def __init__(self, core: udf.FlowMsgQueue) -> None:
        super().__init__()
        self._values = core

    def depth(self) -> int:
        """How many messages can wait."""
        return self._values.maxsize

    def size(self) -> int:
        """How many messages wait."""
        return self._values.qsize()

    def take(self, timeout: int) -> tuple[int, object]:
        """The next object and 0, or a code and nothing."""
        try:
            return codes.FUNC_SUCCESS, from_core(self._values.get(timeout=None if timeout < 0 else timeout / 1000))
        except queue.Empty:
            return codes.FUNC_ERR_TIME_OUT_ERROR, None
        except AbortError:
            return codes.FUNC_STATUS_EXIT, None
        except MissingError:
            return ALIGN_FAILED, None
        except NodeError as error:
            return error.ret_code or codes.FUNC_FAILED, None


class FlowMsgQueue(udf.InputOnlyQueue):
    """An input from which a function takes what it wants. Times are milliseconds.

    Args:
        native_queue: The native object.
    """

    def __init__(self, native_queue: NativeQueue) -> None:  # not that of the base: there is nothing to put into
        self._inner = native_queue
        self.maxsize = native_queue.depth()

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        """The next object: a Tensor, None for an empty message, or what was sent.

        Args:
            block: Whether to wait.
            timeout: Milliseconds; None has no limit.

        Raises:
            queue.Empty: there is none, or none came in time.
            ValueError: a negative timeout.
            DfAbortException: none will come any more.
            DfException: the message carries a code; 364000 if, of several inputs, this one gets no message of a
                transaction the function has a part of, because it was cancelled or failed.
        """
        if block and timeout is not None and timeout < 0:
            raise ValueError("'timeout' must be a non-negative number")
        code, found = self._inner.take((-1 if timeout is None else int(timeout)) if block else 0)
        if code == codes.FUNC_SUCCESS:
            return found
        if not block or code == codes.FUNC_ERR_TIME_OUT_ERROR:
            raise queue.Empty
        if code in _ABORTED:
            raise DfAbortException("no more data will come", code)
        raise DfException("a message could not be taken, or carries a code", code)

    def get_nowait(self) -> object:
        """The next object, if there is one."""
        return self.get(block=False)

    def qsize(self) -> int:
        """How many messages wait."""
        return self._inner.size()


def _object(msg: FlowMsg) -> object:
    try:
        found = object_of(msg)
    except DfException:
        return msg.get_raw_data()  # a type nobody registered
    return Tensor.over(found._impl, in_function=True) if isinstance(found, Tensor) else found
