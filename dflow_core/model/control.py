"""What an application and its executor processes tell each other, as data (`control_serde.py` knows the wire format).

    application                          executor
      LoadRequest (with descriptors) ->
                                     <-  Ready, or LoadFailed and the end
      StatusRequest                  ->
                                     <-  Status
      Order                          ->
                                     <-  Obeyed, where the order asks for an answer
                                     <-  InstanceDone, one for each instance whose input has ended
                                     <-  Fatal, where a node asked that its errors end the graph
                                     <-  ExceptionNote, where a function raised an exception for a transaction
      ExceptionNote, for all others  ->
      Stop                           ->
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dflow_core.model.dead_part import DeadPart
from dflow_core.model.deploy_plan import ProcessPlan
from dflow_core.model.exception_note import ExceptionNote


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Everything an executor needs to begin.

    The descriptors that travel along are those of the memory group, then one for each model: a memory file that
    holds the submodel as `submodel_to_bytes` gives it. Models may be larger than any message.

    Args:
        process: What runs in it.
        models: Names of the submodels, in the order of their descriptors.
        options: Graph options in force.
        group_scheme, group_token, group_fds: Handle of the memory group; how many descriptors belong to it.
        dead_parts: Parts that an earlier life of the process has lost.
        builtins: Modules whose plugin hooks are registered without being installed.
        allowed_plugins: Plugins that may be loaded; None is the environment's choice.
        hold: Whether to wait for `OrderKind.GO` before taking any message.
    """

    process: ProcessPlan
    models: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    group_scheme: str = ""
    group_token: bytes = b""
    group_fds: int = 0
    dead_parts: tuple[DeadPart, ...] = ()
    builtins: tuple[str, ...] = ()
    allowed_plugins: tuple[str, ...] | None = None
    hold: bool = False

    @property
    def fd_count(self) -> int:
        """How many descriptors travel along."""
        return self.group_fds + len(self.models)


@dataclass(frozen=True, slots=True)
class Ready:
    """Every instance of the process is loaded and takes work."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in an executor.

    Args:
        kind: Type name of the exception.
        message: Its text.
        traceback: Formatted traceback.
        node, instance: Where; "" for the process as a whole.
        hint: What to do.
        trans_id: Transaction whose call it was; 0 for none.
        input_shapes: What that call was given.
    """

    kind: str
    message: str
    traceback: str = ""
    node: str = ""
    instance: int = 0
    hint: str = ""
    trans_id: int = 0
    input_shapes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """An instance could not be loaded; the executor ends."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Fatal:
    """The graph cannot go on: a node failed that asked for it with `on_error="stop"`."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class InstanceDone:
    """An instance has worked off everything: its input queues are closed and empty."""

    model: str
    index: int


@dataclass(frozen=True, slots=True)
class Stop:
    """End.

    Args:
        drain: Whether to work off what is in the queues first; they are closed then.
    """

    drain: bool


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """Asks for a Status of the same number."""

    number: int


class OrderKind(enum.Enum):
    """What an application can tell an executor to do while it runs.

    LOOK: read the board of cancelled transactions, and free what waits of them. GO: take messages, after `hold`.
    SUSPEND: finish the calls at hand and begin none; answered when that is so. RESUME: go on. DISCARD: while suspended,
    throw away all input and whatever is held, and reset the functions; answered with whether there was nothing left to
    throw away. RETIRE: end in good order though the queues stay open, because another process takes its place; answered
    when no instance takes a message any more, but one that wakes it.
    """

    LOOK = "look"
    GO = "go"
    SUSPEND = "suspend"
    RESUME = "resume"
    DISCARD = "discard"
    RETIRE = "retire"


@dataclass(frozen=True, slots=True)
class Order:
    """Do something; those with a number are answered with Obeyed of the same."""

    kind: OrderKind
    number: int = 0


@dataclass(frozen=True, slots=True)
class Obeyed:
    """An order has been carried out.

    Args:
        number: Of the order.
        quiet: For `DISCARD`, whether nothing was thrown away.
    """

    number: int
    quiet: bool = True


@dataclass(frozen=True, slots=True)
class InstanceState:
    """Where one instance stands.

    Args:
        model, index: The instance.
        calls: Calls finished.
        busy: Seconds spent in calls.
        current: Transaction in work and for how many seconds, or None between calls.
    """

    model: str
    index: int
    calls: int = 0
    busy: float = 0.0
    current: tuple[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """Answer to a StatusRequest."""

    number: int
    instances: tuple[InstanceState, ...] = field(default=())


ControlMessage: TypeAlias = (
    LoadRequest | Ready | LoadFailed | Fatal | InstanceDone | Stop | StatusRequest | Status | Order | Obeyed
    | ExceptionNote
)
