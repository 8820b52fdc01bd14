"""What the machine of the application and a daemon tell each other, as data (`serde.py` knows the wire format).

    application                            daemon
      Deploy                        ->
                                    <-     Answer: it is ready, or why not
      Ask                           ->
                                    <-     Answer
      Raised, from all others       ->
                                    <-     Raised, where a function raised an exception for a transaction
                                    <-     Broken, where its part cannot go on
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dflow_core.model import DeployPlan, ExceptionNote
from dflow_core.model.control_serde import Failure
from dflow_core.spi import InstanceStatus, QueueStats


class Question(enum.Enum):
    """What is asked of a part."""

    STATUS = "status"
    STACKS = "stacks"
    QUEUES = "queues"
    SUSPEND = "suspend"
    RESUME = "resume"
    DISCARD = "discard"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Deploy:
    """Start a part.

    Args:
        plan: The part.
        options: Graph options in force.
        model: The graph as an OM file, with the models that the part needs.
    """

    plan: DeployPlan
    options: Mapping[str, str]
    model: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask something of a part.

    Args:
        question: What.
        timeout: Seconds it may take, where it takes some.
    """

    question: Question
    timeout: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request.

    Args:
        failure: Why it could not be done.
        verdict: What `Deployment.suspend` or `discard` gave.
        statuses, stacks, queues: What was asked for.
    """

    failure: Failure | None = None
    verdict: bool | None = None
    statuses: tuple[InstanceStatus, ...] = ()
    stacks: Mapping[str, str] = field(default_factory=dict)
    queues: tuple[QueueStats, ...] = ()


@dataclass(frozen=True, slots=True)
class Raised:
    """A function raised an exception."""

    note: ExceptionNote


@dataclass(frozen=True, slots=True)
class Broken:
    """A part cannot go on."""

    failure: Failure


Request: TypeAlias = Deploy | Ask
Note: TypeAlias = Raised | Broken
Content: TypeAlias = Request | Answer | Note


@dataclass(frozen=True, slots=True)
class MachineMessage:
    """One message.

    Args:
        number: Of the request, from 1, and of its answer; 0 for notes.
        content: What it says.
    """

    number: int
    content: Content
