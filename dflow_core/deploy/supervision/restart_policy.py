"""Whether and when a process that was lost is started again, without I/O.

Losses are counted in a window that moves with the time. The first of a row of losses is followed by a start at once,
the others by one after a pause that doubles, up to a limit. A life that was longer than this limit begins a new row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dflow_core.model import DeployPlan, FlowModel
from dflow_core.types import NodeOptions

_DEFAULT = NodeOptions()


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """What follows when a process is lost. Times are seconds.

    Args:
        when_lost: `restart`, `degrade`, `always` or `never`, as NodeOptions has them.
        restarts: How often it may be started again within the window.
        window: How long a loss is counted.
        delay: The first pause before a start; it doubles from one to the next.
        longest_delay: The longest one. Lives longer than that are followed by none.
    """

    when_lost: str = _DEFAULT.when_lost
    restarts: int = _DEFAULT.restarts
    window: float = _DEFAULT.restart_window
    delay: float = _DEFAULT.restart_delay
    longest_delay: float = _DEFAULT.restart_delay_max

    @classmethod
    def of(cls, options: Sequence[NodeOptions]) -> RestartPolicy:
        """For a process with these nodes: of each what is the more careful."""
        return cls(
            _merged(one.when_lost for one in options),
            min((one.restarts for one in options if one.when_lost != "always"), default=0),
            max(one.restart_window for one in options),
            max(one.restart_delay for one in options),
            max(one.restart_delay_max for one in options),
        )

    @property
    def words(self) -> str:
        """In one line, for `dflow plan`."""
        if self.when_lost == "never":
            return "not started again"
        if self.when_lost != "always" and not self.restarts:
            return "not started again (restarts=0)"
        most = f"up to {_times(self.restarts)} in {self.window:g} s"
        often = "however often" if self.when_lost == "always" else most
        pauses = f"pauses of {self.delay:g} to {self.longest_delay:g} s" if self.longest_delay else "no pauses"
        again = f"started again {often}, {pauses}"
        return f"left to other instances; the last one is {again}" if self.when_lost == "degrade" else again

    def refusal(self, times: int) -> str:
        """Why it is not started again after so many times within the window."""
        if self.when_lost == "never":
            return "it is not started again, because of `when_lost='never'`"
        often = f"started again {_times(times)} within {self.window:g} s"
        return f"it was {often if times else 'not started again'}, and `restarts={self.restarts}` allows no more"

    @property
    def advice(self) -> str:
        """What to do about a refusal."""
        if self.when_lost == "never":
            return "mend the cause, or give the node another `when_lost`"
        return "mend the cause, or set `restarts` of the node higher or its `restart_window` shorter"


def restart_policies(model: FlowModel, plan: DeployPlan) -> dict[str, RestartPolicy]:
    """What follows when a process of a plan is lost, by its name."""
    return {
        process.name: RestartPolicy.of([model.submodels[one.model].options for one in process.instances])
        for process in plan.processes
    }


class Restarts:
    """The losses of one process, and what follows on each.

    Args:
        policy: The rules.
    """

    def __init__(self, policy: RestartPolicy) -> None:
        self.policy = policy
        self._recent: deque[float] = deque()
        self._row = 0

    def after_loss(self, now: float, lived: float | None) -> float | None:
        """Seconds until the next start, or None if there is none.

        Args:
            now: Seconds on the monotonic clock.
            lived: How long it had been running; None if it had not loaded yet.
        """
        policy = self.policy
        while self._recent and now - self._recent[0] > policy.window:
            self._recent.popleft()
        if policy.when_lost == "never" or (policy.when_lost != "always" and len(self._recent) >= policy.restarts):
            return None
        if policy.when_lost != "always":
            self._recent.append(now)
        is_short = lived is None or lived <= policy.longest_delay
        self._row = self._row + 1 if is_short else 1
        if self._row == 1:
            return 0.0
        return min(policy.delay * 2.0 ** min(self._row - 2, 64), policy.longest_delay)

    @property
    def refusal(self) -> str:
        """Why there is none, after `after_loss` gave None."""
        return self.policy.refusal(len(self._recent))


def _times(number: int) -> str:
    return f"{number} time{'s' * (number != 1)}"


def _merged(found: Iterable[str]) -> str:
    """What a process does whose nodes say different things: none has it started more often than it asked for."""
    wanted = set(found)
    if "never" in wanted:
        return "never"
    return wanted.pop() if len(wanted) == 1 else "restart"
