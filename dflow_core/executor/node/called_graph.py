"""Graphs that a function calls while it works: the caller's side of a graph, inside an executor.

A call is a transaction of the called graph, and the table of transactions that the application uses for its own
(`client.py`) does the same work here. In the graph itself, messages keep the transaction of the caller, so that traces
and cancelling know them; the number of the call is their label, which joins pair by, and their step id, by which
answers find their call. What answers a call that nobody waits for any more, or one of a former life of the process, has
a number that no open call has, and is let go.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dflow_core.errors import ClosedError, DflowError, UsageError
from dflow_core.executor.backend import ALLOC_LIMIT, Backend
from dflow_core.executor.outcomes import Channel, Outcome
from dflow_core.message import Aux, Block, DataFlag, FeedInfo, FlowMsg, MsgInfo
from dflow_core.spi import GraphCall

_BITS = 0xFFFFFFFF
_FIRST = 1 << 31


class CallBackend(Backend):
    """Puts the caller's head on what goes in, and the number of its call on what comes out.

    Args:
        inner: What moves the messages.
    """

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.head = MsgInfo()
        self._last = 0

    @property
    def is_foreign(self) -> bool:
        return self.inner.is_foreign

    def alloc(self, size: int, timeout: float = ALLOC_LIMIT) -> Block:
        return self.inner.alloc(size, timeout)

    def owns(self, block: Block) -> bool:
        return self.inner.owns(block)

    def has_room(self, inputs: Sequence[int]) -> bool:
        return self.inner.has_room(inputs)

    def feed(self, trans_id: int, blocks: Mapping[int, Block]) -> None:
        self._last, head = trans_id, self.head
        for block in blocks.values():
            data = block.array(writable=True)
            info, _, _ = MsgInfo.unpack(data)
            info.trans_id, info.route_label = head.trans_id, head.route_label
            info.data_label = info.step_id = trans_id & _BITS
            info.data_flag |= head.data_flag & DataFlag.CUSTOM_ID
            info.rewrite(data)
        self.inner.feed(head.trans_id, blocks)

    def pump(self, timeout: float, room_for: Sequence[int] = ()) -> list[tuple[int, FlowMsg]]:
        return [(output, self._numbered(msg)) for output, msg in self.inner.pump(timeout, room_for)]

    def failure(self) -> DflowError | None:
        return self.inner.failure()

    def report(self, stacks: bool = True) -> str:
        return self.inner.report(stacks)

    def wake(self) -> None:
        self.inner.wake()

    def close(self) -> None:
        self.inner.close()

    def _numbered(self, msg: FlowMsg) -> FlowMsg:
        members = tuple(replace(member, info=self._in_table(member.info)) for member in msg.aux.members)
        aux = Aux(members, msg.aux.error) if members else msg.aux
        return FlowMsg(self._in_table(msg.info), msg.body, aux, msg.block)

    def _in_table(self, info: MsgInfo) -> MsgInfo:
        """The head with the number that the table knows the call by; heads carry 32 bits of it."""
        made = info.copy()
        made.trans_id = self._last - ((self._last - info.step_id) & _BITS)
        return made


class CalledGraph:
    """One graph that the functions of a node call. Thread-safe.

    Args:
        name: Its name, `<node>/<key>`, for errors.
        inputs, outputs: Names of its inputs and outputs.
        backend: What moves its messages.
        cause: Gives the exception object behind an error of a node, where there is one.
    """

    def __init__(
        self, name: str, inputs: Sequence[str], outputs: Sequence[str], backend: Backend,
        cause: Callable[[str], BaseException | None] = lambda _node: None,
    ) -> None:
        from dflow_core.executor.caller.client import GraphClient  # late: most nodes call no graph

        self._name = name
        self._inputs = tuple(inputs)
        self._cause = cause
        self._backend = CallBackend(backend)
        # Answers to a former life of this process may still come; they must fit no call of this one.
        self._client = GraphClient(name, inputs, outputs, self._backend, last_id=random.randrange(1, _FIRST))
        self._feeding = threading.Lock()
        self._calls: dict[int, _Call] = {}

    def start(self, head: MsgInfo, values: Sequence[object]) -> GraphCall:
        """Begin a call.

        Args:
            head: Head its messages inherit.
            values: One for each input.

        Raises:
            UsageError: another number of values.
        """
        if len(values) != len(self._inputs):
            names = ", ".join(self._inputs)
            raise UsageError(f"{self._name!r} has {len(self._inputs)} inputs ({names}), got {len(values)} values")
        channel = Channel()
        info = FeedInfo(head.start_time, head.end_time, head.flags, 0, head.user_data)
        with self._feeding:
            self._backend.head = head
            number = self._client.feed(dict(enumerate(values)), info=info, channel=channel)
            call = self._calls[number] = _Call(self, head, number, channel)
        return call

    def cancel(self, trans_id: int) -> None:
        """Cancel every call that was made for a transaction."""
        for call in [call for call in list(self._calls.values()) if call.head.trans_id == trans_id]:
            call.cancel()

    def close(self) -> None:
        """End it; calls under way end with ClosedError. Idempotent."""
        self._client.close()

    def wake(self) -> None:
        """Have those who wait look again whether the graph ends."""
        self._backend.wake()

    def take(self, channel: Channel, timeout: float | None) -> Outcome:
        """The next outcome of a call."""
        outcome = self._client.take(channel, timeout)
        error = outcome.error
        if error is not None and error.node and error.__cause__ is None:
            error.__cause__ = self._cause(error.node)
        return outcome

    def let_go(self, number: int, channel: Channel, error: DflowError | None = None) -> None:
        """Forget a call; if it has not ended, what still comes of it is dropped, and who waits gets the error."""
        if self._calls.pop(number, None) is not None and error is not None:
            self._client.abandon(channel, error)


class _Call(GraphCall):
    """A call of a CalledGraph."""

    def __init__(self, graph: CalledGraph, head: MsgInfo, number: int, channel: Channel) -> None:
        self.head = head
        self._graph = graph
        self._number = number
        self._channel = channel
        self._rows: list[tuple[FlowMsg | None, ...]] = []
        self._error: DflowError | None = None
        self._ended = False
        self._lock = threading.Lock()

    def results(self, timeout: float | None = None) -> Sequence[Sequence[FlowMsg | None]]:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while not self._ended:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                self._note(self._graph.take(self._channel, left))
        if self._error is not None:
            raise self._error
        return self._rows

    def cancel(self) -> None:
        error = ClosedError(f"the call for transaction {self.head.trans_id} was cancelled")
        self._graph.let_go(self._number, self._channel, error)

    def _note(self, outcome: Outcome) -> None:
        if outcome.messages:
            self._rows.append(tuple(msg and self._as_callers(msg) for msg in outcome.messages))
        if outcome.last or outcome.error is not None:
            self._ended, self._error = True, outcome.error
            if outcome.error is not None:
                outcome.error.trans_id = self.head.trans_id
            self._graph.let_go(self._number, self._channel)

    def _as_callers(self, msg: FlowMsg) -> FlowMsg:
        """The message as part of the caller's transaction, not of the call."""
        head, info = self.head, msg.info.copy()
        info.trans_id, info.data_label, info.step_id = head.trans_id, head.data_label, head.step_id
        info.token = head.token
        return FlowMsg(info, msg.body, Aux(error=msg.aux.error), msg.block)


def find_called(graphs: Mapping[str, CalledGraph], key: str, node: str) -> CalledGraph:
    """The graph a node's functions call by a key.

    Raises:
        UsageError: there is none; lists what there is.
    """
    found = graphs.get(key)
    if found is None:
        known = ", ".join(map(repr, graphs)) or "none"
        hint = "give the node one with add_invoked_closure, before it is put on a node"
        raise UsageError(f"there is no graph {key!r} to call; there is {known}", node=node, hint=hint)
    return found
