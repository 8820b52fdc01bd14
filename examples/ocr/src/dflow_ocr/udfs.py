"""Two functions over messages that dflow loads by name: batching across pages, and reading what a batch gave.

They are what a published UDF package looks like: `plugin.py` registers them, a graph names them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dflow_core.message import FlowMsg, Member, decode
from dflow_core.spi import FlowFunc, FuncParams, RunContext
from dflow_ocr.batching import Batch, BucketBatcher
from dflow_ocr.models import find_models, read_alphabet
from dflow_ocr.recognise import ctc_decode

__all__ = ["BucketBatch", "ReadLines"]


class BucketBatch(FlowFunc):
    """Collects single lines of whatever pages come into batches of one width.

    Init parameters:
        size: Lines in a full batch.
        wait: Seconds a line waits for company.
        columns: Most columns of pixels in a batch; 0 is no limit.
    """

    def init(self, params: FuncParams) -> None:
        """Read the parameters."""
        size, wait, columns = (params.attrs.get(key, default) for key, default in _DEFAULTS.items())
        self._batcher: BucketBatcher[FlowMsg] = BucketBatcher(
            int(str(size)), float(str(wait)), int(str(columns)) or None
        )

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        """Take one line."""
        line = inputs[0].get_tensor()
        assert line is not None, "the node in front gives arrays"
        for batch in self._batcher.add(line.shape[-1], inputs[0], context.now()):
            self._send(context, batch)

    def deadline(self) -> float | None:
        """When the oldest line has waited long enough."""
        return self._batcher.next_due()

    def on_timer(self, context: RunContext) -> None:
        """Send what has waited long enough."""
        for batch in self._batcher.due(context.now()):
            self._send(context, batch)

    def on_stop(self, context: RunContext) -> None:
        """Send everything."""
        for batch in self._batcher.flush():
            self._send(context, batch)

    def _send(self, context: RunContext, batch: Batch[FlowMsg]) -> None:
        lines = [line for msg in batch.items if (line := msg.get_tensor()) is not None]
        feed = context.alloc((len(lines), *lines[0].shape), np.dtype(np.float32), len(lines))
        np.stack(lines, out=feed)
        members = [Member(msg.info) for msg in batch.items]
        context.send(0, feed, like=batch.items[-1], members=members)


_DEFAULTS = {"size": 6, "wait": 0.25, "columns": 0}


class ReadLines(FlowFunc):
    """Turns what the recogniser gave for a batch into lines of text, one for each line that went into it."""

    def init(self, params: FuncParams) -> None:
        """Load the alphabet."""
        self._alphabet = read_alphabet(find_models().rec)

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        """Read one batch; without members it is one transaction's own, and its lines stay together."""
        lines = ctc_decode(np.asarray(decode(inputs[0])), self._alphabet)
        members = inputs[0].aux.members
        if not members:
            context.send(0, lines, like=FlowMsg(inputs[0].info))
            return
        for member, line in zip(members, lines, strict=True):
            context.send(0, line, like=FlowMsg(member.info))
