"""The book of a function that takes messages from queues; the rules are those of `context.py`."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dflow_core.errors import UsageError
from dflow_core.executor.node.call_context import CallContext, CallOwner, OutputSink
from dflow_core.executor.pairing.aligner import RecentKeys
from dflow_core.executor.streams.context import StreamContext
from dflow_core.executor.streams.taken_log import TakenMsg
from dflow_core.message import Alloc, Aux, Block, DataFlag, ErrorInfo, FlowMsg, Member, MsgInfo, root_token
from dflow_core.spi import GraphCall
from dflow_core.types import Array, FuncSpec

_Key = tuple[int, int]


@dataclass(slots=True)
class _Debt:
    """A message without an answer; its block is kept, so that it is found if this process dies.

    What was given are the messages of its transaction, one of each input.
    """

    info: MsgInfo
    aux: Aux
    block: Block | None
    given: list[weakref.ref[TakenMsg]]

    @property
    def is_released(self) -> bool:
        return all(one() is None for one in self.given)


class LedgerContext(StreamContext):
    """The book of a function that gets and gives messages; arguments as for StreamContext."""

    def __init__(self, spec: FuncSpec, sink: OutputSink, alloc: Alloc, owner: CallOwner) -> None:
        super().__init__(spec, sink, alloc, owner)
        self._debts: list[OrderedDict[_Key, _Debt]] = [OrderedDict() for _ in spec.outputs]
        self._sent = [0] * len(spec.outputs)
        self._is_explicit = [False] * len(spec.outputs)
        self._let_go_of = RecentKeys()
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
            if trans_id in self._let_go_of:
                return
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
            self._halves.clear()
            self._let_go_of = RecentKeys()
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
        debt = _Debt(msg.info, msg.aux, msg.block, [weakref.ref(given)])
        self._known.add(msg.info.key)
        self._let_go_of.discard(msg.info.trans_id)
        for debts in self._debts:
            debts[msg.info.key] = debt
        return given

    def _give(self, port: int, msg: FlowMsg) -> FlowMsg:
        given = TakenMsg.of(msg)
        debt = next((debts[msg.info.key] for debts in self._debts if msg.info.key in debts), None)
        if debt is not None:
            debt.given.append(weakref.ref(given))
        return given

    def _pairs(self, key: _Key) -> bool:
        return not self._debts or self.owes(key)

    def _let_go(self, key: _Key) -> None:
        self._let_go_of.add(key[0])
        for index, debts in enumerate(self._debts):
            if key in debts:
                self._skip(index, key)

    def _forget(self, trans_id: int) -> bool:
        gone = [(debts, key) for debts in self._debts for key in debts if key[0] == trans_id]
        for debts, key in gone:
            del debts[key]
        return bool(gone)

    def _sweep(self) -> None:
        """End what the function has let go of, where its answers name what they answer and it can get no more of it."""
        with self._lock:
            for index, debts in enumerate(self._debts):
                if self._is_explicit[index]:
                    released = [key for key, debt in debts.items() if debt.is_released and not self._halves.awaits(key)]
                    for key in released:
                        self._skip(index, key)

    def _skip(self, index: int, key: _Key) -> None:
        debt = self._debts[index].pop(key)
        info = replace(debt.info, data_flag=debt.info.data_flag | DataFlag.SKIP)
        self._end(info, Aux(debt.aux.members), self._spec.outputs[index])
