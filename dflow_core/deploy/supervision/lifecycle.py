"""The life of one executor process, without I/O: events in, instructions out.

                    begin              loaded
        IDLE ----------------> STARTING ----------> RUNNING
                                 ^   |                 |
                          timer  |   | ended           | ended
                                 |   v                 v
                                BACKOFF <--------------+   (or FAILED, when it was restarted too often)

    A stop turns STARTING and RUNNING into STOPPING and, when the process has ended, into STOPPED; a process that has
    worked off all its input goes to STOPPED by itself. A first start that fails is never repeated: its reason
    is the user's to mend. FAILED and STOPPED are final.

The table at the end of the class says what may follow what; an event that fits no row is an error of the shell and
raises with the history.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from dflow_core.deploy.supervision.restart_policy import RestartPolicy, Restarts
from dflow_core.model.control_serde import Failure

_HISTORY = 32


class State(enum.Enum):
    """Where a process stands; the value is what status reports say."""

    IDLE = "idle"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Begin:
    """Start it for the first time."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """It has loaded everything and takes work."""


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """It could not load something, and says why; its end follows."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Unable:
    """No process could be started, or it must not go on: the graph ends for this reason."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Overdue:
    """It took too long over something and is to be ended and started again.

    Args:
        why: In words, such as `a call exceeded its limit of 2 s`.
    """

    why: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The process is gone and has been waited for.

    Args:
        how: In words, such as `was ended by signal 9`.
        finished: Whether it had worked off all its input and said so.
        is_spare: Whether it is not to be started again, because others do its work.
    """

    how: str
    finished: bool = False
    is_spare: bool = False


@dataclass(frozen=True, slots=True)
class Timer:
    """The time asked for with `WakeAfter` is over."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """It is to end for good."""


Event: TypeAlias = Begin | Loaded | NotLoaded | Unable | Overdue | Ended | Timer | StopAsked


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a process."""


@dataclass(frozen=True, slots=True)
class Kill:
    """End the process now."""


@dataclass(frozen=True, slots=True)
class Recover:
    """Take back what the process held and answer for the transactions it lost.

    Args:
        cause: Why they were lost, in words.
    """

    cause: str


@dataclass(frozen=True, slots=True)
class WakeAfter:
    """Give a `Timer` event after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The graph cannot go on without this process.

    Args:
        failure: Why.
        started: Whether it had ever been running.
    """

    failure: Failure
    started: bool


@dataclass(frozen=True, slots=True)
class GivenUp:
    """That it is not started again.

    Args:
        at: When that was decided, seconds on the monotonic clock.
        why: In words.
    """

    at: float
    why: str


Instruction: TypeAlias = Launch | Kill | Recover | WakeAfter | GiveUp


class Lifecycle:
    """The state of one process.

    Args:
        name: Its name, for errors.
        policy: What follows when it is lost.

    Attributes:
        restarted: How often it was started again.
        given_up: That it is not started any more, or None.
    """

    def __init__(self, name: str, policy: RestartPolicy) -> None:
        self.name = name
        self.state = State.IDLE
        self.restarted = 0
        self.given_up: GivenUp | None = None
        self._restarts = Restarts(policy)
        self._was_running = False
        self._loaded_at = 0.0
        self._why: Failure | None = None
        self._history: deque[str] = deque(maxlen=_HISTORY)

    @property
    def settled(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in (State.STOPPED, State.FAILED, State.IDLE)

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Take an event and say what is to be done.

        Args:
            event: What happened.
            now: Seconds on the monotonic clock.
        """
        action = self._TABLE.get((self.state, type(event)))
        self._history.append(f"{self.state.name} {event}")
        if action is None:
            raise AssertionError(f"{self.name}: no rule for this event; history: " + "; ".join(self._history))
        return action(self, event, now)

    def _ignore(self, event: Event, now: float) -> list[Instruction]:
        return []

    def _begin(self, event: Event, now: float) -> list[Instruction]:
        self.state = State.STARTING
        return [Launch()]

    def _begin_again(self, event: Event, now: float) -> list[Instruction]:
        self.restarted += 1
        return self._begin(event, now)

    def _loaded(self, event: Event, now: float) -> list[Instruction]:
        self.state, self._was_running, self._why = State.RUNNING, True, None
        self._loaded_at = now
        return []

    def _not_loaded(self, event: Event, now: float) -> list[Instruction]:
        assert isinstance(event, NotLoaded)
        self._why = event.failure
        return [Kill()]

    def _unable(self, event: Event, now: float) -> list[Instruction]:
        assert isinstance(event, Unable)
        return [Kill(), self._give_up(event.failure, now)]

    def _overdue(self, event: Event, now: float) -> list[Instruction]:
        assert isinstance(event, Overdue)
        self._why = self._why or Failure("lost", event.why)
        return [Kill()]

    def _ended(self, event: Event, now: float) -> list[Instruction]:
        assert isinstance(event, Ended)
        why = self._why or Failure("lost", f"its process {event.how}")
        self._why = None
        if event.finished:
            self.state = State.STOPPED
            return [Recover(why.message)]
        if not self._was_running:
            return [Recover(why.message), self._give_up(why, now)]
        if event.is_spare:
            spare = replace(why, message=f"{why.message}; `when_lost='degrade'` leaves its work to other instances")
            return [Recover(why.message), self._give_up(spare, now)]
        lived = now - self._loaded_at if self.state is State.RUNNING else None
        delay = self._restarts.after_loss(now, lived)
        if delay is None:
            refused = replace(
                why, message=f"{why.message}; {self._restarts.refusal}",
                hint=why.hint or self._restarts.policy.advice,
            )
            return [Recover(why.message), self._give_up(refused, now)]
        self.state = State.BACKOFF
        return [Recover(why.message), WakeAfter(delay)]

    def _give_up(self, failure: Failure, now: float) -> GiveUp:
        self.state, self.given_up = State.FAILED, GivenUp(now, failure.message)
        return GiveUp(failure, self._was_running)

    def _stop(self, event: Event, now: float) -> list[Instruction]:
        self.state = State.STOPPING
        return []

    def _stopped(self, event: Event, now: float) -> list[Instruction]:
        self.state = State.STOPPED
        return [Recover("the graph was closed")] if isinstance(event, Ended) else []

    def _clean_up(self, event: Event, now: float) -> list[Instruction]:
        return [Recover("the graph has failed")]

    def _kill(self, event: Event, now: float) -> list[Instruction]:
        return [Kill()]

    _TABLE: ClassVar[
        Mapping[tuple[State, type[Event]], Callable[[Lifecycle, Event, float], list[Instruction]]]
    ] = {
        (State.IDLE, Begin): _begin,
        (State.IDLE, StopAsked): _stopped,
        (State.STARTING, Loaded): _loaded,
        (State.STARTING, NotLoaded): _not_loaded,
        (State.STARTING, Unable): _unable,
        (State.STARTING, Overdue): _overdue,
        (State.STARTING, Ended): _ended,
        (State.STARTING, StopAsked): _stop,
        (State.RUNNING, Unable): _unable,
        (State.RUNNING, Overdue): _overdue,
        (State.RUNNING, Ended): _ended,
        (State.RUNNING, StopAsked): _stop,
        (State.BACKOFF, Timer): _begin_again,
        (State.BACKOFF, StopAsked): _stopped,
        (State.STOPPING, Loaded): _ignore,
        (State.STOPPING, NotLoaded): _kill,
        (State.STOPPING, Unable): _kill,
        (State.STOPPING, Overdue): _kill,
        (State.STOPPING, Ended): _stopped,
        (State.STOPPING, StopAsked): _ignore,
        (State.STOPPING, Timer): _ignore,
        (State.STOPPED, StopAsked): _ignore,
        (State.STOPPED, Timer): _ignore,
        (State.FAILED, Loaded): _ignore,
        (State.FAILED, NotLoaded): _ignore,
        (State.FAILED, Unable): _ignore,
        (State.FAILED, Overdue): _ignore,
        (State.FAILED, Ended): _clean_up,
        (State.FAILED, StopAsked): _ignore,
        (State.FAILED, Timer): _ignore,
    }
