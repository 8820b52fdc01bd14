"""What functions that take messages from queues owe for what they take, and what becomes of what they send. No I/O.

The messages of a call belong together by what they are; a function with queues decides itself. So it is kept book of
which messages have no answer yet:

- Values (`segment_context.py`): what a function sends answers the messages it took last, since it last sent something.
  When it takes another message from the same queue, or waits for one without a limit, those without an answer end as
  skipped; several answers are parts of the first. So loops, filters, windows and joins come out right without naming
  anything.
- Messages (`ledger_context.py`): an answer names its message, by being it or by its transaction; what names none
  answers the oldest. A message that the function has let go of without an answer ends as skipped, once it is known to
  name what it answers. The C++ runtime has the same rules (ledger.h).

Errors, skips and ends of streams pass by the function, as they do by every other. Of several inputs' messages for one
transaction it gets all or none (`halves.py`).
"""

from __future__ import annotations

import abc
import threading
from dataclasses import replace

from dflow_core.errors import UsageError
from dflow_core.executor.node.call_context import CallOwner, OutputSink
from dflow_core.executor.pairing.aligner import RecentKeys
from dflow_core.executor.streams.halves import Comes, Fate, HalfLostError, Halves
from dflow_core.message import Alloc, Aux, DataFlag, ErrorInfo, FlowMsg, MsgInfo
from dflow_core.spi import RunContext
from dflow_core.types import FuncSpec

_Key = tuple[int, int]
_NOT_DATA = DataFlag.SKIP | DataFlag.END | DataFlag.ERROR


class StreamContext(RunContext):
    """The book of one function, and what it may do. Any thread may send.

    Attributes:
        activity: Counts what the function took and sent.
        answers: Counts what it sent.
        has_lost: Whether it was told of a message that will not come; whoever calls it sets it back.

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
        self._halves = Halves(len(spec.inputs))
        self._ended = RecentKeys()
        self._known = RecentKeys()
        self.activity = 0
        self.answers = 0
        self.has_lost = False

    def took(self, port: int, msg: FlowMsg) -> FlowMsg | None:
        """Note a message that was taken; gives what the function gets, or None for one that passes by it.

        Args:
            port: Input of the function, from 0.
            msg: The message.

        Raises:
            HalfLostError: the function has another part of its transaction, which ends with this one.
        """
        with self._lock:
            info = msg.info
            if info.data_flag & DataFlag.END:
                if info.key not in self._ended:
                    self._ended.add(info.key)
                    self._end(info, msg.aux)
                return None
            fate = self._fate(port, msg)
            if fate is Fate.GIVE:
                self.activity += 1
                return self._give(port, msg) if info.key in self._known else self._owe(port, msg)
            if fate is not Fate.DROP:
                self._pass_by(port, msg, is_told=fate is Fate.TELL and self._pairs(info.key))
            return None

    def check_halves(self, port: int) -> None:
        """The function wants a message of an input.

        Raises:
            HalfLostError: it holds a part of a transaction that was cancelled, and would pair it with another.
        """
        with self._lock:
            told = 0
            for key in self._halves.lose(port, self._owner.is_cancelled):
                if self._pairs(key):
                    self._let_go(key)
                    told = told or key[0]
            if told:
                self.has_lost = True
                raise HalfLostError(port, told, "was cancelled or passed its deadline")

    def lacks(self, port: int) -> bool:
        """Whether to look at `check_halves` now and then while the function waits."""
        return len(self._spec.inputs) > 1 and len(self._halves) > 0

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

    def is_cancelled(self, trans_id: int) -> bool:
        return self._owner.is_cancelled(trans_id)

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
    def _owe(self, port: int, msg: FlowMsg) -> FlowMsg:
        """Note a message to answer; what the function gets."""

    def _give(self, port: int, msg: FlowMsg) -> FlowMsg:
        """What the function gets of a message beside another of its transaction, or after its answer."""
        return msg

    @abc.abstractmethod
    def _forget(self, trans_id: int) -> bool: ...

    @abc.abstractmethod
    def _pairs(self, key: _Key) -> bool:
        """Whether the function may be about to pair a message it has with another."""

    @abc.abstractmethod
    def _let_go(self, key: _Key) -> None:
        """End what is owed for a message as skipped; what the function still sends for it goes nowhere."""

    def _fate(self, port: int, msg: FlowMsg) -> Fate:
        flags = msg.info.data_flag & _NOT_DATA
        if len(self._spec.inputs) == 1:
            return Fate.END if flags else Fate.GIVE
        keys = msg.keys
        is_lost = flags & DataFlag.ERROR or (flags and all(self._owner.is_cancelled(trans_id) for trans_id, _ in keys))
        return self._halves.take(port, keys, Comes.LOST if is_lost else Comes.SKIP if flags else Comes.DATA)

    def _pass_by(self, port: int, msg: FlowMsg, is_told: bool) -> None:
        info = msg.info
        is_error = bool(info.data_flag & DataFlag.ERROR)
        if (is_error and self._forget(info.trans_id)) or not (is_told or info.key in self._known):
            self._known.add(info.key)
            self._end(info, msg.aux)
        if is_told:
            self._let_go(info.key)
            self.has_lost = True
            why = "failed in an earlier node" if is_error else "was cancelled or passed its deadline"
            raise HalfLostError(port, info.trans_id, why)

    def _end(self, info: MsgInfo, aux: Aux, output: int | None = None) -> None:
        ending = FlowMsg(replace(info, data_flag=info.data_flag | DataFlag.NULL), None, aux)
        for one in self._spec.outputs if output is None else (output,):
            if not info.data_flag & DataFlag.SKIP or self._owner.ends(one, info.key):
                self._sink(one, ending)
