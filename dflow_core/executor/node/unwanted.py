"""What a node does with messages of cancelled transactions: it puts skips in their place, and frees their blocks.

A skip keeps key and token, so joins, batches and the caller's table learn that nothing will come. It lies in a block of
the graph's memory where there is room: if this process dies, the supervisor finds it there and passes it on.
"""

from __future__ import annotations

from dataclasses import replace

from dflow_core.errors import PoolExhaustedError
from dflow_core.executor.cancel_board import CancelReader
from dflow_core.message import Alloc, Aux, DataFlag, FlowMsg, seal


class Unwanted:
    """Knows which messages nobody wants any more.

    Look at `words[0]` first: it is 0 as long as nothing is cancelled.

    Args:
        reader: The board of cancelled transactions.
        alloc: Gives blocks at once, or raises PoolExhaustedError; None for skips that lie nowhere.
    """

    __slots__ = ("_alloc", "_reader", "words")

    def __init__(self, reader: CancelReader | None = None, alloc: Alloc | None = None) -> None:
        self._reader = CancelReader() if reader is None else reader
        self._alloc = alloc
        self.words = self._reader.words

    def is_cancelled(self, trans_id: int) -> bool:
        """Whether a transaction was cancelled."""
        return trans_id in self._reader

    def has_news(self) -> bool:
        """Whether something was cancelled since the last call of this."""
        return self._reader.has_news()

    def stand_in(self, msg: FlowMsg) -> FlowMsg:
        """A skip in the place of a message with data that nobody wants; any other message is given back as it is.

        A batch goes on as long as one of its members is wanted.
        """
        if not msg.is_data or not all(trans_id in self._reader for trans_id, _ in msg.keys):
            return msg
        info = replace(msg.info, data_flag=msg.info.data_flag | DataFlag.SKIP | DataFlag.NULL)
        skip = FlowMsg(info, None, Aux(msg.aux.members))
        if self._alloc is None:
            return skip
        try:
            return seal(skip, self._alloc)
        except PoolExhaustedError:
            return skip
