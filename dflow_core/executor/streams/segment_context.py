"""The book of a function that takes values from queues; the rules are those of `context.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dflow_core.errors import UsageError
from dflow_core.executor.node.call_context import CallContext, CallOwner, OutputSink
from dflow_core.executor.pairing.aligner import RecentKeys
from dflow_core.executor.streams.context import StreamContext
from dflow_core.message import Alloc, Aux, DataFlag, ErrorInfo, FlowMsg, Member
from dflow_core.spi import GraphCall
from dflow_core.types import Array, FuncSpec

_Key = tuple[int, int]


class SegmentContext(StreamContext):
    """The book of a function that gets and gives values; arguments as for StreamContext."""

    def __init__(self, spec: FuncSpec, sink: OutputSink, alloc: Alloc, owner: CallOwner) -> None:
        super().__init__(spec, sink, alloc, owner)
        self._taken: dict[_Key, FlowMsg] = {}
        self._ports: set[int] = set()
        self._call: CallContext | None = None
        self._has_sent = False
        self._expired: set[int] = set()

    def now(self) -> float:
        return self._open().now()

    def alloc(self, shape: Sequence[int], dtype: np.dtype[np.generic], members: int = 0) -> Array:
        with self._lock:
            return self._open().alloc(shape, dtype, members)

    def send(
        self, index: int, value: object, *, like: FlowMsg | None = None, members: Sequence[Member] = (),
        changes: Mapping[str, object] | None = None,
    ) -> None:
        with self._lock:
            if not self._taken:
                if value is None:
                    return
                raise UsageError(
                    "a function with queues sent a value that answers no message",
                    hint="take a message first; what is sent answers what was taken last",
                )
            self.activity += 1
            self.answers += 1
            self._has_sent = True
            self._open().send(index, value, members=members, changes=changes)

    def call_graph(self, key: str, inputs: Sequence[object]) -> GraphCall:
        return self._open().call_graph(key, inputs)

    @property
    def cancelled(self) -> bool:
        return bool(self._taken) and all(self._owner.is_cancelled(trans_id) for trans_id, _ in self._taken)

    def owes(self, key: _Key) -> bool:
        return key in self._taken

    def waits(self, port: int, *, forever: bool) -> None:
        with self._lock:
            if self._has_sent or (forever and port in self._ports) or port in self._expired:
                self._close()
            elif not forever and port in self._ports:
                self._expired.add(port)  # waiting in vain once may be for company; twice it is polling

    def end_call(self) -> None:
        with self._lock:
            self._close()

    def settle(self) -> None:
        self.end_call()

    def reset(self) -> bool:
        with self._lock:
            had = bool(self._taken)
            self._clear()
            self._known, self._ended = RecentKeys(), RecentKeys()
            self._halves.clear()
            return had

    def fail_all(self, error: ErrorInfo, ret_code: int) -> bool:
        with self._lock:
            if not self._taken:
                return False
            call = self._open()
            self._clear()
            call.fail_call(error, ret_code)
            return True

    def _owe(self, port: int, msg: FlowMsg) -> FlowMsg:
        if self._has_sent or port in self._ports:
            self._close()
        self._ports.add(port)
        self._expired.clear()
        self._taken.setdefault(msg.info.key, msg)
        if self._call is not None:
            self._call.head = self._head()
        return msg

    def _pairs(self, key: _Key) -> bool:
        return key in self._taken and not self._has_sent

    def _let_go(self, key: _Key) -> None:
        msg = self._taken.get(key)
        if msg is not None:
            self._remove([key])
            self._end(replace(msg.info, data_flag=msg.info.data_flag | DataFlag.SKIP), Aux(msg.aux.members))

    def _forget(self, trans_id: int) -> bool:
        gone = [key for key in self._taken if key[0] == trans_id]
        self._remove(gone)
        return bool(gone)

    def _remove(self, keys: Sequence[_Key]) -> None:
        for key in keys:
            self._known.add(key)
            del self._taken[key]
        if not self._taken:
            self._clear()
        elif self._call is not None:
            self._call.head = self._head()

    def _open(self) -> CallContext:
        if self._call is None:
            inputs = (self._head(),) if self._taken else ()
            self._call = CallContext(
                self._spec, inputs[0] if inputs else None, self._sink, self._alloc, self._owner, inputs
            )
        return self._call

    def _head(self) -> FlowMsg:
        """The first message; where there are others, it stands for them too, as a batch does."""
        first = next(iter(self._taken.values()))
        if len(self._taken) == 1:
            return first
        members = [m for msg in self._taken.values() for m in (msg.aux.members or (Member(msg.info),))]
        return FlowMsg(first.info, first.body, Aux(tuple(members)), first.block)

    def _close(self) -> None:
        if not self._taken:
            return
        call = self._open()
        self._clear()
        call.finish()

    def _clear(self) -> None:
        for key in self._taken:
            self._known.add(key)
        self._taken, self._ports, self._call = {}, set(), None
        self._has_sent = False
        self._expired.clear()
