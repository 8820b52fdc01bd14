"""A run context that sends nothing: to call a function with messages outside a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dflow_core import udf
from dflow_core.message import FlowMsg, HeapBlock, Member, alloc_tensor
from dflow_core.spi import RunContext
from dflow_core.types import Array

__all__ = ["trial_context"]


class _TrialContext(RunContext):
    """Takes what is sent and keeps nothing."""

    def now(self) -> float:
        """The start of time: nothing waits here."""
        return 0.0

    def alloc(self, shape: Sequence[int], dtype: np.dtype[np.generic], members: int = 0) -> Array:
        """An array in ordinary memory."""
        return alloc_tensor(shape, dtype, HeapBlock)

    def send(
        self, index: int, value: object, *, like: FlowMsg | None = None, members: Sequence[Member] = (),
        changes: Mapping[str, object] | None = None,
    ) -> None:
        """Take a value."""

    def open_parts(self) -> None:
        """Take note of a stream."""

    def send_part(self, index: int, value: object) -> None:
        """Take a part."""

    def skip(self, msg: FlowMsg, index: int | None = None) -> None:
        """Take note that nothing is sent."""

    def fail(self, msg: FlowMsg, error: BaseException) -> None:
        """Take note of an error."""

    def defer(self) -> bool:
        """Calls end at once."""
        return False

    def complete(self, error: BaseException | None = None) -> None:
        """Nothing was deferred."""


def trial_context() -> udf.MetaRunContext:
    """A context for one call outside a graph."""
    return udf.MetaRunContext(_TrialContext(), [])
