"""`_BuiltIn_CountBatch`: a fixed number of messages in each batch."""

from __future__ import annotations

from collections.abc import Sequence

from dflow_builtin_udf.batch_func import BatchFunc
from dflow_builtin_udf.count_window import CountWindow
from dflow_builtin_udf.items import Item
from dflow_builtin_udf.parameters import Parameters
from dflow_core.message import FlowMsg
from dflow_core.spi import FuncParams, RunContext


class CountBatch(BatchFunc):
    """Stacks `batch_size` messages along a new first dimension.

    Init parameters:
        batch_size: Messages in a batch, at least 1.
        slide_stride: How many messages leave after a batch, 0 to `batch_size`; 0 is all.
        timeout: Seconds after the first message when an incomplete batch is sent; 0 waits for all.
        padding: Whether incomplete batches and smaller tensors are filled up with zeros.
    """

    _window: CountWindow

    def init(self, params: FuncParams) -> None:
        """Check the parameters."""
        super().init(params)
        known = ("batch_size", "slide_stride", "timeout", "padding")
        given = Parameters("CountBatch", params.name, params.attrs, known)
        size = given.whole("batch_size", None, 1)
        self._window = CountWindow(
            size,
            given.whole("slide_stride", 0, 0, size),
            given.seconds("timeout"),
            given.flag("padding", False),
        )

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        """Take what arrived."""
        item = Item.of(inputs)
        self.run(context, self._window.offer(item, context.now()), item)

    def deadline(self) -> float | None:
        """When the batch being collected is sent at the latest."""
        return self._window.deadline

    def on_timer(self, context: RunContext) -> None:
        """Send what is there."""
        self.run(context, self._window.expire(context.now()))

    def on_stop(self, context: RunContext) -> None:
        """Send what was in no batch yet."""
        self.run(context, self._window.flush())
