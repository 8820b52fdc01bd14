"""What functions that take messages from queues owe for what they take, and what becomes of what they send. No I/O.

The messages of a call belong together by what they are; a function with queues decides itself. So it is kept book of
which messages have no answer yet:

- Values (`SegmentContext`): what a function sends answers the messages it took last, since it last sent something. When
  it takes another message from the same queue, or waits for one without a limit, those without an answer end as
  skipped; several answers are parts of the first. So loops, filters, windows and joins come out right without naming
  anything.
- Messages (`LedgerContext`): an answer names its message, by being it or by its transaction; what names none answers
  the oldest. A message that the function has let go of without an answer ends as skipped, once it is known to name what
  it answers. The C++ runtime has the same rules (ledger.h).

Errors, skips and ends of streams pass by the function, as they do by every other.
"""

from __future__ import annotations

import abc
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dflow_core.errors import UsageError
from dflow_core.executor.aligner import RecentKeys
from dflow_core.executor.call_context import CallContext, CallOwner, OutputSink
from dflow_core.executor.taken_log import TakenMsg
from dflow_core.message import Alloc, Aux, Block, DataFlag, ErrorInfo, FlowMsg, Member, MsgInfo, root_token
from dflow_core.spi import GraphCall, RunContext
from dflow_core.types import Array, FuncSpec

_Key = tuple[int, int]
_NOT_DATA = DataFlag.SKIP | DataFlag.END | DataFlag.ERROR


class StreamContext(RunContext):
    """The book of one function, and what it may do. Any thread may send.

    Args:
        spec: The function.
        sink: Takes (node output index, message).
        alloc: Gives blocks.
        owner: Explains errors, finds called graphs.
    """

    def __init__(self, spec: FuncSpec, sink: OutputSink, alloc: Alloc, owner: CallOwner) -> None:
        self._spec = spec
        self._sink = sink
        self._alloc = alloc
        self._owner = owner
        self._lock = threading.RLock()
        self._skipped: dict[_Key, set[int]] = {}
        self._ended = RecentKeys()
        self._known = RecentKeys()
        self.activity = 0
        self.answers = 0

    def took(self, port: int, msg: FlowMsg) -> FlowMsg | None:
        """Note a message that was taken; gives what the function gets, or None for one that passes by it.

        Args:
            port: Input of the function, from 0.
            msg: The message.
        """
        with self._lock:
            if msg.info.data_flag & _NOT_DATA:
                self._pass_by(port, msg)
                return None
            self.activity += 1
            self._skipped.pop(msg.info.key, None)
            is_owed = msg.info.key not in self._known
            return self._owe(port, msg) if is_owed else TakenMsg.of(msg)

    @abc.abstractmethod
    def owes(self, key: _Key) -> bool:
        """Whether messages of a key have no answer yet."""

    @abc.abstractmethod
    def waits(self, port: int, *, forever: bool) -> None:
        """The function waits for a message at an input, or (not forever) has done so in vain."""

    @abc.abstractmethod
    def end_call(self) -> None:
        """The function has returned."""

    @abc.abstractmethod
    def fail_all(self, error: ErrorInfo, ret_code: int) -> bool:
        """The function has failed: what it owes ends with the error; False if it owes nothing."""

    @abc.abstractmethod
    def settle(self) -> None:
        """No message will come any more: what is owed ends as skipped."""

    @abc.abstractmethod
    def reset(self) -> bool:
        """Forget everything that is owed, because it was thrown away; whether that was something."""

    def open_parts(self) -> None:
        """Nothing to announce: how many answers there are shows by what is taken next."""

    def send_part(self, index: int, value: object) -> None:
        self.send(index, value)

    def skip(self, msg: FlowMsg, index: int | None = None) -> None:
        raise UsageError("a function with queues ends a message by sending nothing for it")

    def fail(self, msg: FlowMsg, error: BaseException) -> None:
        raise UsageError("a function with queues fails by raising") from error

    def defer(self) -> bool:
        return False

    def complete(self, error: BaseException | None = None) -> None:
        raise UsageError("a function with queues has no calls to complete")

    @abc.abstractmethod
    def _owe(self, port: int, msg: FlowMsg) -> FlowMsg: ...

    @abc.abstractmethod
    def _forget(self, trans_id: int) -> bool: ...

    def _pass_by(self, port: int, msg: FlowMsg) -> None:
        info = msg.info
        if info.data_flag & DataFlag.END:
            if info.key not in self._ended:
                self._ended.add(info.key)
                self._end(info, msg.aux)
        elif info.data_flag & DataFlag.ERROR:
            if self._forget(info.trans_id) or info.key not in self._known:
                self._known.add(info.key)
                self._end(info, msg.aux)
        elif info.key not in self._known:
            ports = self._skipped.setdefault(info.key, set())
            ports.add(port)
            if len(ports) == len(self._spec.inputs):  # else another input may have data for it
                del self._skipped[info.key]
                self._known.add(info.key)
                self._end(info, msg.aux)

    def _end(self, info: MsgInfo, aux: Aux, output: int | None = None) -> None:
        ending = FlowMsg(replace(info, data_flag=info.data_flag | DataFlag.NULL), None, aux)
        for one in self._spec.outputs if output is None else (output,):
            if not info.data_flag & DataFlag.SKIP or self._owner.ends(one, info.key):
                self._sink(one, ending)


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
            self._skipped.clear()
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

    def _forget(self, trans_id: int) -> bool:
        gone = [key for key in self._taken if key[0] == trans_id]
        for key in gone:
            self._known.add(key)
            del self._taken[key]
        if not self._taken:
            self._clear()
        elif self._call is not None:
            self._call.head = self._head()
        return bool(gone)

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


@dataclass(slots=True)
class _Debt:
    """A message without an answer; its block is kept, so that it is found if this process dies."""

    info: MsgInfo
    aux: Aux
    block: Block | None
    given: weakref.ref[TakenMsg]


class LedgerContext(StreamContext):
    """The book of a function that gets and gives messages; arguments as for StreamContext."""

    def __init__(self, spec: FuncSpec, sink: OutputSink, alloc: Alloc, owner: CallOwner) -> None:
        super().__init__(spec, sink, alloc, owner)
        self._debts: list[OrderedDict[_Key, _Debt]] = [OrderedDict() for _ in spec.outputs]
        self._sent = [0] * len(spec.outputs)
        self._is_explicit = [False] * len(spec.outputs)
        self._out = CallContext(spec, None, sink, alloc, owner)

    def now(self) -> float:
        return self._out.now()

    def alloc(self, shape: Sequence[int], dtype: np.dtype[np.generic], members: int = 0) -> Array:
        return self._out.alloc(shape, dtype, members)

    def send(
        self, index: int, value: object, *, like: FlowMsg | None = None, members: Sequence[Member] = (),
        changes: Mapping[str, object] | None = None,
    ) -> None:
        if not 0 <= index < len(self._debts):
            raise UsageError(f"output {index} does not exist: the function has {len(self._debts)}")
        given = dict(changes or {})
        trans_id = like.info.trans_id if like is not None else given.pop("trans_id", 0)
        given.pop("token", None)
        assert isinstance(trans_id, int)
        with self._lock:
            self.activity += 1
            self.answers += 1
            self._sent[index] += 1
            self._is_explicit[index] = bool(trans_id)
            debts = self._debts[index]
            key = like.info.key if like is not None and like.info.key in debts else None
            if key is None:
                key = next((key for key in debts if trans_id in (0, key[0])), None)
            debt = debts.pop(key) if key is not None else None
            number = trans_id or (debt.info.trans_id if debt is not None else self._sent[index])
            info = replace(like.info) if like is not None else MsgInfo()
            info.trans_id = number
            info.token = debt.info.token if debt is not None else root_token(number)
            info.data_label = debt.info.data_label if debt is not None else 0
            inherited = debt.aux.members if debt is not None else ()
            self._out.send(index, value, like=FlowMsg(info), members=tuple(members) or inherited, changes=given)

    def call_graph(self, key: str, inputs: Sequence[object]) -> GraphCall:
        return self._out.call_graph(key, inputs)

    def owes(self, key: _Key) -> bool:
        return any(key in debts for debts in self._debts)

    def waits(self, port: int, *, forever: bool) -> None:
        self._sweep()

    def end_call(self) -> None:
        self._sweep()

    def settle(self) -> None:
        with self._lock:
            for index in range(len(self._debts)):
                for key in list(self._debts[index]):
                    self._skip(index, key)

    def reset(self) -> bool:
        with self._lock:
            had = any(self._debts)
            for debts in self._debts:
                debts.clear()
            self._known, self._ended = RecentKeys(), RecentKeys()
            self._skipped.clear()
            return had

    def fail_all(self, error: ErrorInfo, ret_code: int) -> bool:
        with self._lock:
            owed = [(index, debt) for index, debts in enumerate(self._debts) for debt in debts.values()]
            for debts in self._debts:
                debts.clear()
            for index, debt in owed:
                flag = debt.info.data_flag | DataFlag.ERROR
                info = replace(debt.info, data_flag=flag, ret_code=ret_code or debt.info.ret_code)
                self._end(info, Aux(debt.aux.members, error), self._spec.outputs[index])
            return bool(owed)

    def _owe(self, port: int, msg: FlowMsg) -> FlowMsg:
        self._sweep()
        given = TakenMsg.of(msg)
        debt = _Debt(msg.info, msg.aux, msg.block, weakref.ref(given))
        self._known.add(msg.info.key)
        for debts in self._debts:
            debts[msg.info.key] = debt
        return given

    def _forget(self, trans_id: int) -> bool:
        gone = [(debts, key) for debts in self._debts for key in debts if key[0] == trans_id]
        for debts, key in gone:
            del debts[key]
        return bool(gone)

    def _sweep(self) -> None:
        """End what the function has let go of, where its answers name what they answer."""
        with self._lock:
            for index, debts in enumerate(self._debts):
                if self._is_explicit[index]:
                    for key in [key for key, debt in debts.items() if debt.given() is None]:
                        self._skip(index, key)

    def _skip(self, index: int, key: _Key) -> None:
        debt = self._debts[index].pop(key)
        info = replace(debt.info, data_flag=debt.info.data_flag | DataFlag.SKIP)
        self._end(info, Aux(debt.aux.members), self._spec.outputs[index])
