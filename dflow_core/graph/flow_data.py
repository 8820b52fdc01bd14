"""What the caller of a graph feeds."""

from __future__ import annotations

from datetime import timedelta

from dflow_core.graph.arguments import check_type
from dflow_core.graph.attributes import QueueSettings
from dflow_core.graph.names import Name
from dflow_core.types import TensorSpec


class FlowData:
    """An input of a graph.

    Args:
        name: What the caller feeds it by; without one it is called `FlowData`, `FlowData_1`, ... in order of creation.
        schema: Element type and shape of what will be fed, if known; fed values are checked against it.
    """

    def __init__(self, name: str | Name | None = None, schema: TensorSpec | None = None) -> None:
        check_type(schema, (TensorSpec, type(None)), "a TensorSpec as schema of a FlowData", None)
        self._name = name if isinstance(name, Name) else Name(name, "FlowData")
        self.schema = schema
        self.queue = QueueSettings()

    @property
    def name(self) -> str:
        """Its name; an automatic one is final once a graph has been built."""
        return self._name.text

    def set_queue(
        self, *, depth: int = 0, overflow: str = "block", max_age: float | timedelta = 0.0
    ) -> FlowData:
        """Say how the queues behind this input are; returns the input.

        Args:
            depth: Messages that may wait for each consumer; 0 is the default.
            overflow: What a full queue does: `block`, `drop_oldest`, `drop_newest`, `keep_latest` or `max_age`.
            max_age: Seconds after which a message is dropped, for `max_age`.

        Raises:
            OptionError: a value it cannot have.
        """
        self.queue = QueueSettings.of(depth, overflow, max_age)
        return self

    def __repr__(self) -> str:
        return f"FlowData({self.name!r}" + (f", {self.schema}" if self.schema else "") + ")"
