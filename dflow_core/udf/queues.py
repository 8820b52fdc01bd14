"""Inputs as functions with queues see them: by value, or as messages (python-api.md section 12.4)."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import NoReturn

from dflow_core.errors import AbortError, MissingError, NodeError, UsageError
from dflow_core.message import ALIGN_FAILED, FlowMsg, decode
from dflow_core.spi import InputQueue
from dflow_core.udf.codes import ERR_TIME_OUT, STATUS_EXIT, SUCCESS


class InputOnlyQueue(queue.Queue):  # type: ignore[type-arg]  # generic only when it is checked
    """A `queue.Queue` that can only be taken from; kinds of it say how to `get`, how much waits, and `maxsize`."""

    def empty(self) -> bool:
        """Whether none waits."""
        return self.qsize() == 0

    def full(self) -> bool:
        """Whether as many wait as can."""
        return 0 < self.maxsize <= self.qsize()

    def put(self, item: object, block: bool = True, timeout: float | None = None) -> NoReturn:
        """Not possible: the graph puts in what the node in front sends."""
        raise NotImplementedError("an input can only be taken from")

    def put_nowait(self, item: object) -> NoReturn:
        """Not possible, as `put`."""
        self.put(item)

    def join(self) -> NoReturn:
        """Not possible: taking a message is all there is to do."""
        raise NotImplementedError("an input can only be taken from")

    def task_done(self) -> NoReturn:
        """Not possible, as `join`."""
        self.join()


class FlowMsgQueue(InputOnlyQueue):
    """An input of a function with `stream_input="Queue"`; what is taken from it are values.

    A loop over it ends when no more will come. Times are seconds, as in `queue.Queue`.

    Args:
        source: The input.
    """

    def __init__(self, source: InputQueue) -> None:  # not that of the base: there is nothing to put into
        self._source = source
        self.maxsize = source.depth

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        """The next value: an array that shares the message's memory, an object, None for a null message.

        Args:
            block: Whether to wait; if not, the timeout does not count.
            timeout: Seconds; None waits until one comes.

        Raises:
            queue.Empty: none came within the limit.
            AbortError: none will come any more. A function that lets it pass has ended in good order.
            NodeError: the message carries a code.
            MissingError: of several inputs, this one gets no message of a transaction the function has a part of,
                because it was cancelled or failed. A function that lets it pass is called again for the next.
            ValueError: the timeout is negative.
        """
        if block and timeout is not None and timeout < 0:
            raise UsageError(f"a timeout must not be negative, got {timeout}")
        msg = self._source.get(timeout if block else 0.0)
        if msg is None:
            raise queue.Empty
        if msg.info.ret_code:
            raise NodeError(f"a message carries code {msg.info.ret_code}", ret_code=msg.info.ret_code)
        return decode(msg)

    def get_nowait(self) -> object:
        """The next value if there is one now; errors as for `get`."""
        return self.get(block=False)

    def __iter__(self) -> Iterator[object]:
        """Every value, until no more will come."""
        while True:
            try:
                value = self.get()
            except AbortError:
                return
            yield value
            del value  # nothing but the function may hold it while this waits

    def qsize(self) -> int:
        """Messages that wait."""
        return self._source.level()


class MessageQueue:
    """An input of a hand-written function with `stream_input`; what is taken from it are messages.

    Args:
        source: The input.
    """

    def __init__(self, source: InputQueue) -> None:
        self._source = source

    def dequeue(self, timeout: int = -1) -> tuple[int, FlowMsg | None]:
        """The next message, and 0 or the code it carries; or a code and None.

        Args:
            timeout: Milliseconds; -1 waits until one comes, 0 tries once.

        Returns:
            Code 564001 if none came in time, 564004 if none will come any more; 364000 if, of several inputs, this one
            gets no message of a transaction the function has a part of, because it was cancelled or failed.
        """
        try:
            msg = self._source.get(None if timeout < 0 else timeout / 1000)
        except AbortError:
            return STATUS_EXIT, None
        except MissingError:
            return ALIGN_FAILED, None
        return (ERR_TIME_OUT, None) if msg is None else (msg.info.ret_code or SUCCESS, msg)

    def depth(self) -> int:
        """Messages it can hold."""
        return self._source.depth

    def size(self) -> int:
        """Messages that wait."""
        return self._source.level()
