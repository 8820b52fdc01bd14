"""Runs a C++ function in this process, without a graph: for tests and debuggers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dflow_core.errors import ClosedError, DflowError, NodeError, WaitTimeoutError
from dflow_core.message import DataFlag, ErrorInfo, FlowMsg, MsgInfo, decode, encode, root_token
from dflow_core.model import InstancePlan, Route, UdfModel
from dflow_core.spi import FuncParams, GroupConfig, MemoryGroup, NodeLinks, Queue, Transport
from dflow_core.types import Array
from dflow_pne_udf.native.node import CppNode, LibraryPlace

_SLICE = 0.05
_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Sent:
    """A message a function has sent.

    Args:
        output: Where.
        trans_id: Transaction, from 1 in the order of feeding.
        value: What is in it; None for a null message.
        error: Why the transaction ended without a result, or None.
    """

    output: int
    trans_id: int
    value: object
    error: NodeError | None = None


class LocalRun:
    """A C++ function behind queues of its own, in a thread of this process. A context manager.

    Args:
        place: The library.
        transport: Gives the memory; it must be one that native code can use.
        ports: How many inputs and outputs the node has.
        params: Init parameters.
        name: What the node is called.

    Raises:
        DflowError: the library cannot be loaded, or its Init failed.
    """

    def __init__(
        self, place: LibraryPlace, transport: Transport, ports: tuple[int, int],
        params: Mapping[str, object] | None = None, name: str = "function",
    ) -> None:
        self._group: MemoryGroup = transport.create_group(GroupConfig())
        self._error: BaseException | None = None
        self._fed = 0
        inputs, outputs = ([f"{side} {i}" for i in range(n)] for side, n in zip(("in", "out"), ports))
        self._inputs = [self._group.create_queue(queue, _DEPTH) for queue in inputs]
        self._outputs = [self._group.create_queue(queue, _DEPTH) for queue in outputs]
        plan = InstancePlan(
            name, 0, 1, name, "cpu:0", 1, tuple(inputs), tuple((Route((queue,)),) for queue in outputs)
        )
        known = FuncParams(name, input_num=ports[0], output_num=ports[1], attrs=params or {})
        self._node = CppNode(UdfModel(name=name, engine="UDF", functions=place.functions), lambda: place)
        self._thread = threading.Thread(target=self._run, name=f"udf {name}", daemon=True)
        try:
            self._node.open(NodeLinks(self._group, plan, known))
        except BaseException:
            self._group.close()
            raise
        self._thread.start()

    def __enter__(self) -> LocalRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def feed(self, arrays: Sequence[Array], limit: float) -> Iterator[Sent]:
        """Feed one transaction; gives what was sent meanwhile.

        Args:
            arrays: One for each input.
            limit: Seconds it may take until there is room.

        Raises:
            WaitTimeoutError: there was no room within the limit.
        """
        self._fed += 1
        info = MsgInfo(trans_id=self._fed, token=root_token(self._fed))
        for queue, array in zip(self._inputs, arrays, strict=True):
            yield from self._drain(lambda q=queue: q.level() < q.depth, limit)  # type: ignore[misc]
            msg = encode(array, info, lambda size: self._group.alloc(size, limit))
            assert msg.block is not None
            queue.put(msg.block, timeout=0)

    def finish(self, limit: float) -> Iterator[Sent]:
        """No more input comes; gives what is still sent until the function has ended.

        Args:
            limit: Seconds it may take.

        Raises:
            WaitTimeoutError: it did not end.
            DflowError: it ended in failure.
        """
        for queue in self._inputs:
            queue.close()
        yield from self._drain(lambda: not self._thread.is_alive(), limit)
        yield from self._taken()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the function and give the memory back. Idempotent."""
        self._node.stop()
        self._thread.join(10.0)
        self._node.close()
        self._group.close()

    def _run(self) -> None:
        try:
            self._node.run()
        except BaseException as error:
            self._error = error

    def _drain(self, ready: Callable[[], bool], limit: float) -> Iterator[Sent]:
        deadline = time.monotonic() + limit
        bell = self._group.doorbell()
        while not ready():
            found = list(self._taken())
            yield from found
            if self._error is not None and not isinstance(self._error, DflowError):
                raise self._error
            if time.monotonic() > deadline:
                raise WaitTimeoutError(f"the function did not come to an end within {limit:g} s")
            if not found:
                bell.wait(self._outputs, timeout=_SLICE)

    def _taken(self) -> Iterator[Sent]:
        for output, queue in enumerate(self._outputs):
            while (msg := _next(queue)) is not None:
                flags = msg.info.data_flag
                if flags & DataFlag.ERROR:
                    yield Sent(output, msg.info.trans_id, None, _error(msg.aux.error, msg.info.trans_id))
                elif not flags & (DataFlag.SKIP | DataFlag.END):
                    yield Sent(output, msg.info.trans_id, decode(msg))


def _next(queue: Queue) -> FlowMsg | None:
    try:
        block = queue.get(timeout=0)
    except ClosedError:
        return None
    return None if block is None else FlowMsg.from_block(block)


def _error(info: ErrorInfo | None, trans_id: int) -> NodeError:
    if info is None:
        return NodeError("the transaction ended with an error that says nothing", trans_id=trans_id)
    return NodeError(
        info.message, node=info.node, trans_id=trans_id, error_type=info.error_type, remote_traceback=info.traceback,
        input_shapes=info.input_shapes, hint=info.hint or None,
    )
