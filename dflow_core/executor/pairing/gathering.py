"""Collects all parts of a transaction, for functions that gather what a generator upstream spread out.

A transaction is complete when the xor of its root token and of every token that arrived is zero (`message/info.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dflow_core.executor.pairing.aligner import RecentKeys
from dflow_core.message import Aux, DataFlag, ErrorInfo, FlowMsg, MsgInfo, root_token


@dataclass(slots=True)
class Gathered:
    """All parts of one transaction.

    Args:
        info: Head of the transaction as it was before it was spread out.
        parts: Messages with data, in the order the generator made them.
        error: The first error among the parts.
    """

    info: MsgInfo
    parts: list[FlowMsg] = field(default_factory=list)
    error: Aux | None = None


class Gatherer:
    """Collects messages of one input by transaction."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, list[FlowMsg]]] = {}
        self._failed = RecentKeys()

    @property
    def pending(self) -> int:
        """Transactions that wait for a part."""
        return len(self._open)

    def offer(self, msg: FlowMsg) -> Gathered | None:
        """Take a message; returns its transaction if that is now complete, or failed."""
        info = msg.info
        if info.trans_id in self._failed:
            return None
        if msg.aux.members and len(msg.aux.members) > 1:
            text = "a gathering function got a batch of several transactions; put an Unbatch node in front of it"
            return self._fail(info, Aux(error=ErrorInfo("usage", text, "UsageError")))
        if info.data_flag & DataFlag.ERROR:
            return self._fail(info, msg.aux)
        token, parts = self._open.get(info.trans_id, (root_token(info.trans_id), []))
        token ^= info.token
        if msg.is_data:
            parts.append(msg)
        if token:
            self._open[info.trans_id] = token, parts
            return None
        self._open.pop(info.trans_id, None)
        parts.sort(key=lambda part: part.info.data_label)
        return Gathered(_root_info(info), parts)

    def let_go(self, is_unwanted: Callable[[int], bool]) -> None:
        """Forget the parts of transactions that nobody wants any more; what is still to come of them is awaited."""
        for trans_id, (_, parts) in self._open.items():
            if is_unwanted(trans_id):
                parts.clear()

    def poison(self, trans_id: int) -> None:
        """Drop what there is of a transaction and what is still to come: it has ended."""
        self._open.pop(trans_id, None)
        self._failed.add(trans_id)

    def unpoison(self, trans_id: int) -> None:
        """Stop dropping a transaction; see `poison`."""
        self._failed.discard(trans_id)

    def clear(self) -> None:
        """Forget everything."""
        self._open.clear()

    def _fail(self, info: MsgInfo, error: Aux) -> Gathered:
        self._open.pop(info.trans_id, None)
        self._failed.add(info.trans_id)
        return Gathered(_root_info(info), error=error)


def _root_info(info: MsgInfo) -> MsgInfo:
    return replace(info, data_label=0, token=root_token(info.trans_id), data_flag=info.data_flag & DataFlag.CUSTOM_ID)
