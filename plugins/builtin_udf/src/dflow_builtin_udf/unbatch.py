"""`_BuiltIn_Unbatch`: takes batches apart again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dflow_builtin_udf.parameters import Parameters
from dflow_core.errors import UsageError
from dflow_core.message import DataFlag, FlowMsg, Member, decode
from dflow_core.spi import FlowFunc, FuncParams, RunContext


@dataclass(frozen=True, slots=True)
class _Rows:
    """A batch value that can be cut: how many rows it has, and the value of some of them."""

    count: int
    cut: Callable[[int, int], object]


class Unbatch(FlowFunc):
    """Sends each member of a batch its rows, under the member's own head.

    A value is an array, a list with one entry for each row, or a dict of those, of which each member gets a dict.

    Init parameters:
        batch_dim: -1 where rows were stacked along a new first dimension, which is taken away again; k >= 0 where they
            were joined along dimension k.
        padding: Whether there may be more rows than the members have, which are let go.
    """

    def init(self, params: FuncParams) -> None:
        """Check the parameters."""
        given = Parameters("Unbatch", params.name, params.attrs, ("batch_dim", "padding"))
        if params.input_num != params.output_num:
            raise UsageError("Unbatch needs as many outputs as inputs", node=params.name)
        self._dim = given.whole("batch_dim", -1, -1)
        self._padding = given.flag("padding", False)

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        """Take one batch of each input apart.

        Raises:
            UsageError: if it is no batch, or has not as many rows as its members; then nothing is sent.
        """
        work: list[tuple[int, FlowMsg, list[tuple[Member, object]]]] = []
        for index, msg in enumerate(inputs):
            if not msg.is_null or any(member.rows for member in msg.aux.members):
                work.append((index, msg, self._share_out(msg)))
            else:
                context.send(index, None, like=FlowMsg(msg.info), members=msg.aux.members)
        for index, msg, shares in work:
            for member, value in shares:
                _deliver(context, index, member, value)
            if not any(_is_live(member, msg) for member, _ in shares):
                context.skip(FlowMsg(msg.info), index)

    def _share_out(self, msg: FlowMsg) -> list[tuple[Member, object]]:
        members = msg.aux.members
        if not members:
            raise UsageError(
                "this message is no batch: it carries no members to take apart",
                hint="Unbatch works behind TimeBatch or CountBatch, with 1:1 nodes between",
            )
        expected = sum(member.rows for member in members)
        if msg.is_null:
            raise UsageError(f"expected {expected} rows, one for each member of the batch, got None")
        rows = _rows(decode(msg), self._dim)
        if rows.count < expected or (rows.count > expected and not self._padding):
            raise UsageError(
                f"expected {expected} rows, one for each member of the batch, got {rows.count}",
                hint="set padding=True if the batch was padded" if rows.count > expected else None,
            )
        shares, at = [], 0
        for member in members:
            shares.append((member, rows.cut(at, member.rows) if member.rows else None))
            at += member.rows
        return shares


def _is_live(member: Member, msg: FlowMsg) -> bool:
    return member.info.key == msg.info.key and not member.info.data_flag & DataFlag.SKIP


def _deliver(context: RunContext, index: int, member: Member, value: object) -> None:
    """Send a member its value. Fillers get nothing; members without rows are ended, null ones as they came."""
    like = FlowMsg(member.info)
    if member.info.data_flag & DataFlag.SKIP:
        return
    if member.rows or member.info.data_flag & DataFlag.NULL:
        context.send(index, value, like=like)
    else:
        context.skip(like, index)


def _rows(value: object, dim: int) -> _Rows:
    if isinstance(value, np.ndarray):
        array, axis = value, max(dim, 0)
        if array.ndim <= axis:
            raise UsageError(f"expected an array with a row for each member, got {array.dtype}{list(array.shape)}")

        def cut(at: int, count: int) -> object:
            if dim < 0 and count == 1:
                return array[at, ...]
            return array[(slice(None),) * axis + (slice(at, at + count),)]

        return _Rows(array.shape[axis], cut)
    if isinstance(value, list):
        items = value
        return _Rows(len(items), lambda at, count: items[at] if count == 1 else items[at : at + count])
    if isinstance(value, Mapping) and value:
        fields = {name: _rows(part, dim) for name, part in value.items()}
        counts = {name: part.count for name, part in fields.items()}
        if len(set(counts.values())) > 1:
            raise UsageError(f"the entries of the dict have different numbers of rows: {counts}")
        count = next(iter(counts.values()))
        return _Rows(count, lambda at, count: {name: part.cut(at, count) for name, part in fields.items()})
    raise UsageError(
        f"a {type(value).__name__} cannot be taken apart: it does not say which part is whose",
        hint="return an array, a list with one entry for each row, or a dict of those",
    )
