"""Carries out what a window says, over a RunContext."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from dataclasses import replace

from dflow_builtin_udf.assembly import as_sent, join, members, stack, tensors
from dflow_builtin_udf.instructions import Drop, Emit, EndOfSequence, EndParts, Instruction, Refuse
from dflow_builtin_udf.items import Item
from dflow_core.errors import TensorError, UsageError
from dflow_core.message import DataFlag, Flag, FlowMsg, MsgInfo, child_token
from dflow_core.spi import FlowFunc, FuncParams, RunContext


class BatchFunc(FlowFunc, abc.ABC):
    """A function that holds messages until a window says what to do with them.

    `dim` is the dimension to join along; -1 stacks along a new first one.
    """

    dim = -1

    def init(self, params: FuncParams) -> None:
        """Refuse a node whose numbers of inputs and outputs differ."""
        if params.input_num != params.output_num:
            raise UsageError(
                f"a batching node needs as many outputs as inputs, not {params.input_num} and {params.output_num}",
                node=params.name,
            )

    def run(self, context: RunContext, instructions: Iterable[Instruction]) -> None:
        """Carry out instructions in order.

        Raises:
            TensorError: for an item that was refused; the framework then ends that item's transaction.
        """
        # `like` is always a fresh FlowMsg: the executor would hold back what inherits from the current input itself.
        for instruction in instructions:
            if isinstance(instruction, Emit):
                self._emit(context, instruction)
            elif isinstance(instruction, EndParts):
                self._end_parts(context, instruction.item)
            elif isinstance(instruction, EndOfSequence):
                for index, msg in enumerate(instruction.item.msgs):
                    like = FlowMsg(instruction.item.info)
                    context.send(index, None, like=like, members=msg.aux.members, changes={"flags": int(Flag.EOS)})
            elif isinstance(instruction, Drop):
                for item in instruction.items:
                    context.skip(FlowMsg(item.info, aux=item.msgs[0].aux))
            elif isinstance(instruction, Refuse):
                raise TensorError(instruction.why, hint=instruction.hint)

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

    def _end_parts(self, context: RunContext, item: Item) -> None:
        flag = item.info.data_flag | DataFlag.END
        for port in range(len(item.msgs)):
            like = FlowMsg(replace(item.info, token=item.token))
            context.send(port, None, like=like, changes={"data_flag": int(flag)})


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
