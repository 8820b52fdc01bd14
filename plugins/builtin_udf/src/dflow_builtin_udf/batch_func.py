"""Carries out what a window says, over a RunContext."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from dflow_builtin_udf.assembly import as_sent, join, members, stack, tensors
from dflow_builtin_udf.instructions import Drop, Emit, EndOfSequence, EndParts, Instruction, Refuse
from dflow_builtin_udf.items import Item
from dflow_core.errors import TensorError, UsageError
from dflow_core.message import DataFlag, Flag, FlowMsg, MsgInfo, child_token
from dflow_core.spi import FlowFunc, FuncParams, RunContext


class Window(Protocol):
    """What collects the items of a batch."""

    def let_go(self, is_unwanted: Callable[[Item], bool]) -> Iterator[Instruction]:
        """Take out items that nobody wants any more."""

    def clear(self) -> None:
        """Forget everything."""


class BatchFunc(FlowFunc, abc.ABC):
    """A function that holds messages until a window says what to do with them.

    `dim` is the dimension to join along; -1 stacks along a new first one.
    """

    dim = -1
    _window: Window

    def init(self, params: FuncParams) -> None:
        """Refuse a node whose numbers of inputs and outputs differ."""
        if params.input_num != params.output_num:
            raise UsageError(
                f"a batching node needs as many outputs as inputs, not {params.input_num} and {params.output_num}",
                node=params.name,
            )

    def run(self, context: RunContext, instructions: Iterable[Instruction], current: Item | None = None) -> None:
        """Carry out instructions in order.

        Args:
            context: Of the call.
            instructions: From a window.
            current: What the call was made with, if anything; the framework ends it when this raises.

        Raises:
            TensorError: for an item that was refused.
        """
        # Every decision is made before the first is carried out, so that an error leaves no window half-way.
        # `like` is always a fresh FlowMsg: the executor would hold back what inherits from the current input itself.
        for instruction in tuple(instructions):
            if isinstance(instruction, Emit):
                self._emit_or_fail(context, instruction, current)
            elif isinstance(instruction, EndParts):
                _end_parts(context, instruction.item)
            elif isinstance(instruction, EndOfSequence):
                for index, msg in enumerate(instruction.item.msgs):
                    like = FlowMsg(instruction.item.info)
                    context.send(index, None, like=like, members=msg.aux.members, changes={"flags": int(Flag.EOS)})
            elif isinstance(instruction, Drop):
                for item in instruction.items:
                    context.skip(FlowMsg(item.info, aux=item.msgs[0].aux))
            elif isinstance(instruction, Refuse):
                raise TensorError(instruction.why, hint=instruction.hint)

    def on_cancel(self, context: RunContext, is_cancelled: Callable[[int], bool]) -> None:
        """Take cancelled messages out of the window; a batch in it stays while one of its members is wanted."""

        def is_unwanted(item: Item) -> bool:
            return all(is_cancelled(trans_id) for msg in item.msgs for trans_id, _ in msg.keys)

        self.run(context, self._window.let_go(is_unwanted))

    def reset(self) -> None:
        """Forget what is held."""
        self._window.clear()

    def _emit_or_fail(self, context: RunContext, batch: Emit, current: Item | None) -> None:
        """Send a batch; if that cannot be done, end everything in it with the reason."""
        try:
            self._emit(context, batch)
        except Exception as error:
            for item in batch.items[batch.old :]:
                if item is not current:
                    context.fail(FlowMsg(item.info, aux=item.msgs[0].aux), error)
            raise

    def _emit(self, context: RunContext, batch: Emit) -> None:
        info = _next_part(batch.head) if batch.is_part else batch.head.info
        changes: dict[str, object] = {"step_id": max(item.info.step_id for item in batch.items)}
        if batch.times is not None:
            changes["start_time"], changes["end_time"] = batch.times
        info = replace(info, data_flag=info.data_flag & ~DataFlag.NULL)
        for port in range(len(batch.head.msgs)):
            arrays = tensors(batch.items, port)
            array = stack(context, arrays, batch.size) if self.dim < 0 else join(context, arrays, self.dim)
            value = as_sent(array, batch.items[0], port)
            who = members(batch, info, port, self.dim)
            context.send(port, value, like=FlowMsg(info), members=who, changes=changes)


def _end_parts(context: RunContext, item: Item) -> None:
    """Close a stream of batches: an END marker whose token completes those of the batches."""
    flag = item.info.data_flag | DataFlag.END
    context.skip(FlowMsg(replace(item.info, token=item.token, data_flag=int(flag))))


def _next_part(item: Item) -> MsgInfo:
    """Head of the next of several messages under one item's head; `item.token` keeps what closes them.

    Labels follow the executor's rule for parts, so that parts pair at joins and arrive in order.
    """
    info = item.info
    token = child_token(info.token, item.parts)
    label = (info.data_label * 65536 + item.parts + 1) & 0xFFFFFFFF
    item.parts += 1
    item.token ^= token
    return replace(info, token=token, data_label=label)
