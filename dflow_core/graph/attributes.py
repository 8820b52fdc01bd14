"""What may be set on a node: attributes by name, how it is run, and the queues behind its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from types import MappingProxyType
from typing import TypeAlias

from dflow_core.errors import OptionError
from dflow_core.options import nearest, parse, seconds
from dflow_core.types import NodeOptions

AttrValue: TypeAlias = bool | int | str


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute that `FlowNode.set_attr` knows.

    Args:
        type: Type its value must have.
        meaning: One line.
        choices: The texts it may be; empty for any.
        low: Least number it may be; None for any.
        switch: Attribute without which it is not looked at.
    """

    type: type[bool] | type[int] | type[str]
    meaning: str
    choices: tuple[str, ...] = ()
    low: int | None = None
    switch: str = ""

    def complaint(self, value: AttrValue) -> str | None:
        """Why it cannot have this value, or None if it can."""
        if type(value) is not self.type:
            return f"expected a value of type {self.type.__name__}, got {value!r}"
        if self.choices and value not in self.choices:
            return f"expected {' or '.join(self.choices)}, got {value!r}"
        if self.low is not None and isinstance(value, int) and value < self.low:
            return f"expected at least {self.low}, got {value!r}"
        return None


NODE_ATTRIBUTES: Mapping[str, Attribute] = MappingProxyType({
    "engine": Attribute(str, "id of the engine that compiles and runs the node"),
    "_flow_attr": Attribute(bool, "whether the two queue attributes below are in force (default True)"),
    "_flow_attr_depth": Attribute(
        int, "messages that may wait in the queues behind the node's outputs", low=1, switch="_flow_attr"
    ),
    "_flow_attr_enqueue_policy": Attribute(
        str, "FIFO blocks when a queue is full, OVERWRITE drops the oldest", ("FIFO", "OVERWRITE"), switch="_flow_attr"
    ),
    "_npu_sched_model": Attribute(int, "1 keeps the data on the device"),
    "_balance_scatter": Attribute(bool, "whether the node deals its outputs out over instances"),
    "_balance_gather": Attribute(bool, "whether the node collects what was dealt out"),
})

DISPATCHES = ("free", "transaction", "least_loaded", "sticky")
OVERFLOWS = ("block", "drop_oldest", "drop_newest", "keep_latest", "max_age")
WHEN_LOST = ("restart", "degrade", "always", "never")
_DURATIONS = ("call_timeout", "restart_window", "restart_delay", "restart_delay_max")
_NODE_OPTIONS = tuple(field.name for field in fields(NodeOptions))


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The queues behind one output of a node.

    Args:
        depth: Messages that may wait for each consumer; 0 is the default of the graph.
        overflow: What a full queue does: `block`, `drop_oldest`, `drop_newest`, `keep_latest` or `max_age`.
        max_age: Seconds after which a message is dropped, for `max_age`; 0 for the others.

    Raises:
        OptionError: a value it cannot have.
    """

    depth: int = 0
    overflow: str = "block"
    max_age: float = 0.0

    def __post_init__(self) -> None:
        _whole("queue depth", self.depth, 0)
        if self.overflow not in OVERFLOWS:
            raise OptionError(
                f"queue overflow: expected {', '.join(OVERFLOWS)}, got {self.overflow!r}",
                hint=nearest(str(self.overflow), OVERFLOWS),
            )
        if (self.overflow == "max_age") != (self.max_age > 0):
            raise OptionError(
                f"queue overflow={self.overflow!r} with max_age={self.max_age:g}",
                hint="an age in seconds belongs to overflow='max_age', and to no other",
            )

    @classmethod
    def of(cls, depth: int, overflow: str, max_age: float | timedelta) -> QueueSettings:
        """From what a user gives; the age may be a timedelta."""
        return cls(depth, overflow, seconds(max_age, "queue max_age"))

    @property
    def is_lossy(self) -> bool:
        """Whether messages may be dropped."""
        return self.overflow != "block"


def changed_options(current: NodeOptions, changes: Mapping[str, object]) -> NodeOptions:
    """Node options with some changed.

    Args:
        current: What is in force.
        changes: New values by name, as `FlowNode.set_options` takes them.

    Raises:
        OptionError: an unknown name (with the nearest known ones), or a value it cannot have.
    """
    values: dict[str, int | float | str | None] = {}
    for name, value in changes.items():
        if name not in _NODE_OPTIONS:
            known = (*_NODE_OPTIONS, "depth", "engine")
            raise OptionError(f"unknown node option {name!r}", hint=nearest(name, known))
        values[name] = _checked(name, value)
    changed = replace(current, **values)  # type: ignore[arg-type]  # checked one by one above
    if changed.restart_delay > changed.restart_delay_max:
        raise OptionError(
            f"restart_delay={changed.restart_delay:g} s is longer than "
            f"restart_delay_max={changed.restart_delay_max:g} s",
            hint="set both",
        )
    return changed


def _checked(name: str, value: object) -> int | float | str | None:
    if name.startswith("align_"):
        return None if value is None else parse(name, value)
    if name in _DURATIONS:
        found = seconds(value, name)
        if name == "restart_window" and not found:
            raise OptionError("restart_window: expected more than 0 seconds, got 0", hint="`restarts=0` allows none")
        return found
    if name in ("instances", "threads", "restarts"):
        return _whole(name, value, 1 if name == "instances" else 0)
    if not isinstance(value, str):
        raise OptionError(f"{name}: expected a text, got {value!r}")
    if name == "dispatch" and value not in ("", *DISPATCHES):
        raise OptionError(
            f"dispatch: expected {', '.join(DISPATCHES)}, got {value!r}", hint=nearest(value, DISPATCHES)
        )
    if name == "when_lost" and value not in WHEN_LOST:
        raise OptionError(
            f"when_lost: expected {', '.join(WHEN_LOST)}, got {value!r}", hint=nearest(value, WHEN_LOST)
        )
    if name == "on_error" and value not in ("continue", "stop"):
        raise OptionError(f"on_error: expected 'continue' or 'stop', got {value!r}")
    return value


def _whole(name: str, value: object, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise OptionError(f"{name}: expected a whole number of at least {low}, got {value!r}")
    return value
