"""The RunContext of one call, and what becomes of what the call sent.

A call that sends one message per output is 1:1 and its token passes on. One that sends several, or streams parts,
gives each a token and a label of its own and closes them with an END marker. One that sends nothing ends its
input with a skip, unless the function holds inputs. One that raises takes back what was not streamed yet and ends its
inputs with an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np

from dflow_core.errors import UsageError
from dflow_core.executor.node.called_graph import CalledGraph
from dflow_core.message import (
    NO_AUX,
    Alloc,
    Aux,
    DataFlag,
    ErrorInfo,
    FlowMsg,
    Member,
    MsgInfo,
    TensorBlock,
    child_token,
    encode,
    members_size,
)
from dflow_core.spi import GraphCall, RunContext
from dflow_core.types import Array, FuncSpec

OutputSink: TypeAlias = Callable[[int, FlowMsg], None]


class CallOwner(Protocol):
    """What keeps account of calls."""

    def may_defer(self) -> bool:
        """Whether the current call may stay open."""

    def is_cancelled(self, trans_id: int) -> bool:
        """Whether nobody waits for a transaction any more."""

    def complete(self, context: CallContext, error: BaseException | None) -> None:
        """End an open call."""

    def explain(self, error: BaseException, context: CallContext, inputs: Sequence[FlowMsg]) -> ErrorInfo:
        """What to send about an error that a call raised over some of its inputs."""

    def called(self, key: str) -> CalledGraph:
        """A graph that functions of the node call."""

    def ends(self, output: int, key: tuple[int, int]) -> bool:
        """Whether a key ends on a node output because a function sent nothing there; see `SharedOutputs`."""

    def raise_exception(self, context: CallContext, code: int, user_context_id: int) -> None:
        """Raise an exception for the transaction of an open call."""


@dataclass(slots=True)
class _Output:
    """What a call did to one output."""

    held_back: list[tuple[object, Aux, Mapping[str, object]]] = field(default_factory=list)
    is_stream: bool = False
    parts: int = 0
    token: int = 0


class CallContext(RunContext):
    """What one call may do; see `RunContext`.

    Args:
        spec: The function.
        head: Message whose head outputs inherit; None for timers.
        sink: Takes (node output index, message).
        alloc: Gives blocks.
        owner: Ends the call, now or later.
        inputs: What the call was given.
        clock: Monotonic seconds.
    """

    def __init__(
        self, spec: FuncSpec, head: FlowMsg | None, sink: OutputSink, alloc: Alloc, owner: CallOwner,
        inputs: Sequence[FlowMsg] = (), clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.inputs = inputs
        self.started = clock()
        self.is_deferred = False
        self.owes_nothing = False
        self.raised: tuple[ErrorInfo, int] | None = None
        self._owner = owner
        self._spec = spec
        self._head = head
        self._sink = sink
        self._alloc = alloc
        self._clock = clock
        self._outputs = [_Output() for _ in spec.outputs]
        self._made: dict[int, TensorBlock] = {}

    @property
    def spec(self) -> FuncSpec:
        """The function."""
        return self._spec

    @property
    def head(self) -> FlowMsg | None:
        """The message whose head outputs inherit."""
        return self._head

    @head.setter
    def head(self, head: FlowMsg) -> None:
        self._head = head
        self.inputs = (head,)

    @property
    def cancelled(self) -> bool:
        return self._head is not None and self._owner.is_cancelled(self._head.info.trans_id)

    def is_cancelled(self, trans_id: int) -> bool:
        return self._owner.is_cancelled(trans_id)

    def now(self) -> float:
        return self._clock()

    def alloc(self, shape: Sequence[int], dtype: np.dtype[np.generic], members: int = 0) -> Array:
        inherited = len(self._head.aux.members) if self._head else 0
        made = TensorBlock.make(shape, np.dtype(dtype), self._alloc, members_size(max(members, inherited)))
        self._made[id(made.array)] = made
        return made.array

    def send(
        self, index: int, value: object, *, like: FlowMsg | None = None, members: Sequence[Member] = (),
        changes: Mapping[str, object] | None = None,
    ) -> None:
        output = self._output(index)
        if like is not None and like is not self._head:
            self._emit(index, value, like.info, Aux(tuple(members)), changes or {})
            return
        if self._head is None:
            raise UsageError("a timer has no input to inherit from: pass like= to send")
        output.held_back.append((value, Aux(tuple(members) or self._head.aux.members), changes or {}))

    def open_parts(self) -> None:
        for output in self._outputs:
            output.is_stream = True

    def send_part(self, index: int, value: object) -> None:
        output = self._output(index)
        if self._head is None:
            raise UsageError("a timer has no input to make parts of")
        output.is_stream = True
        self._emit_part(index, output, value, {})

    def skip(self, msg: FlowMsg, index: int | None = None) -> None:
        info = replace(msg.info, data_flag=msg.info.data_flag | DataFlag.SKIP | DataFlag.NULL)
        self._end(info, Aux(msg.aux.members), index)

    def fail(self, msg: FlowMsg, error: BaseException) -> None:
        self.fail_with(msg, self._owner.explain(error, self, (msg,)))

    def defer(self) -> bool:
        self.is_deferred = self.is_deferred or (self._head is not None and self._owner.may_defer())
        return self.is_deferred

    def complete(self, error: BaseException | None = None) -> None:
        if not self.is_deferred:
            raise UsageError("only a call that was deferred is completed")
        self._owner.complete(self, error)

    def call_graph(self, key: str, inputs: Sequence[object]) -> GraphCall:
        graph = self._owner.called(key)
        return graph.start(self._head.info if self._head is not None else MsgInfo(), inputs)

    def raise_exception(self, code: int, user_context_id: int = 0) -> None:
        self._owner.raise_exception(self, code, user_context_id)

    def fail_with(self, msg: FlowMsg, error: ErrorInfo, index: int | None = None, ret_code: int = 0) -> None:
        """End a message with an error, and the code the function gave, if it gave one."""
        flags = msg.info.data_flag | DataFlag.ERROR | DataFlag.NULL
        info = replace(msg.info, data_flag=flags, ret_code=ret_code or msg.info.ret_code)
        self._end(info, Aux(msg.aux.members, error), index)

    def finish(self) -> None:
        """Send what the call held back, and close what it streamed."""
        for index, output in enumerate(self._outputs):
            if output.is_stream or len(output.held_back) > 1:
                for value, _, changes in output.held_back:
                    self._emit_part(index, output, value, changes)
                self._emit_end(index, output)
            elif output.held_back:
                value, aux, changes = output.held_back[0]
                assert self._head is not None
                self._emit(index, value, self._head.info, aux, changes)
            elif (
                self._head is not None and not self._spec.holds_inputs and not self.owes_nothing
                and self._owner.ends(self._spec.outputs[index], self._head.info.key)
            ):
                self.skip(self._head, index)
            output.held_back.clear()

    def fail_call(self, error: ErrorInfo, ret_code: int = 0) -> None:
        """End the inputs of a call that raised, or gave a code."""
        ended: dict[tuple[int, int], FlowMsg] = {msg.info.key: msg for msg in self.inputs}
        if (self._head is not None and len(self._spec.inputs) != 1) or (self._spec.gather and self._head is not None):
            ended = {self._head.info.key: self._head}
        for msg in ended.values():
            self.fail_with(msg, error, ret_code=ret_code)

    def _output(self, index: int) -> _Output:
        if not 0 <= index < len(self._outputs):
            raise UsageError(f"output {index} does not exist: the function has {len(self._outputs)}")
        return self._outputs[index]

    def _emit(self, index: int, value: object, info: MsgInfo, aux: Aux, changes: Mapping[str, object]) -> None:
        head = info.derive(**changes) if changes or info.ret_code else info  # it is copied where it is written
        made = self._made.pop(id(value), None)
        msg = made.seal(head, aux) if made is not None and made.array is value else None
        self._sink(self._spec.outputs[index], msg or encode(value, head, self._alloc, aux))

    def _emit_part(self, index: int, output: _Output, value: object, changes: Mapping[str, object]) -> None:
        assert self._head is not None
        head = self._head.info
        token = child_token(head.token, output.parts)
        label = _part_label(head.data_label, output.parts)
        output.parts += 1
        output.token ^= token
        self._emit(index, value, replace(head, data_label=label, token=token), NO_AUX, changes)

    def _emit_end(self, index: int, output: _Output) -> None:
        """Close the parts; if they were made of a batch, the marker also ends its other members."""
        if self._head is None:
            return
        info = self._head.info
        flag = info.data_flag | DataFlag.END | DataFlag.NULL
        end = replace(info, data_flag=flag, token=info.token ^ output.token)
        self._sink(self._spec.outputs[index], FlowMsg(end, None, Aux(self._head.aux.members)))

    def _end(self, info: MsgInfo, aux: Aux, index: int | None) -> None:
        targets = self._spec.outputs if index is None else (self._spec.outputs[index],)
        for output in targets:
            self._sink(output, FlowMsg(info, None, aux))


def _part_label(parent: int, index: int) -> int:
    """Label of a part; parts of parts stay apart as long as none has more than 65535."""
    return (parent * 65536 + index + 1) & 0xFFFFFFFF
