"""Asks executors where they stand, and notices calls that take longer than they may."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from dflow_core.deploy.supervision.loop import Loop
from dflow_core.deploy.supervision.member import Member
from dflow_core.model import PneModel
from dflow_core.model.control_serde import Status, StatusRequest

_SHORTEST = 0.02
_LONGEST = 1.0


class StatusBoard:
    """Status requests and their answers; used in the supervisor's thread.

    An executor whose user code holds the GIL cannot answer. So a request without an answer counts like a call
    that has taken at least as long as the request is old.

    Args:
        loop: The supervisor's loop.
        models: Submodels by name, for their call limits.
        overdue: Told of a process that is over a limit, and how, in words.
    """

    def __init__(self, loop: Loop, models: Mapping[str, PneModel], overdue: Callable[[Member, str], None]) -> None:
        self._loop, self._overdue = loop, overdue
        self._limits = {name: model.options.call_timeout for name, model in models.items()}
        self._numbers = itertools.count(1)
        self._asked: dict[Member, tuple[int, float]] = {}
        self._waiting: list[tuple[dict[Member, int], threading.Event]] = []

    def ask(self, member: Member) -> int:
        """Ask a process; gives the number its answer will have."""
        assert member.process is not None
        number = next(self._numbers)
        self._asked.setdefault(member, (number, time.monotonic()))
        member.process.connection.send(StatusRequest(number))
        return number

    def ask_all(self, members: Sequence[Member], answered: threading.Event) -> None:
        """Ask processes; the event is set when all have answered."""
        self._waiting.append(({member: self.ask(member) for member in members}, answered))
        self._settle()

    def take(self, member: Member, status: Status) -> None:
        """An answer has come."""
        for state in status.instances:
            member.states[state.model, state.index] = state
        asked = self._asked.get(member)
        if asked is not None and status.number >= asked[0]:
            del self._asked[member]
        for missing, _ in self._waiting:
            if missing.get(member, status.number + 1) <= status.number:
                del missing[member]
        self._settle()
        for state in status.instances:
            limit = self._limits.get(state.model, 0.0)
            if limit and state.current is not None and state.current[1] > limit:
                call = f"a call of {state.model}#{state.index} (transaction {state.current[0]})"
                self._overdue(member, f"{call} exceeded its limit of {limit:g} s")
                return

    def forget(self, member: Member) -> None:
        """Its process is gone: nothing will be answered."""
        self._asked.pop(member, None)
        for missing, _ in self._waiting:
            missing.pop(member, None)
        self._settle()

    def watch(self, member: Member) -> None:
        """Ask a process regularly from now on, until it is gone, if its nodes have a limit for calls."""
        limits = [limit for i in member.plan.instances if (limit := self._limits.get(i.model, 0.0)) > 0]
        if limits:
            self._watch(member, min(limits), member.process)

    def _watch(self, member: Member, limit: float, process: object) -> None:
        if member.process is not process or process is None:
            return
        asked = self._asked.get(member)
        if asked is None:
            self.ask(member)
        elif time.monotonic() - asked[1] > limit:
            self._overdue(member, f"a call exceeded its limit of {limit:g} s and kept the whole interpreter busy")
            return
        pause = min(max(limit / 4, _SHORTEST), _LONGEST)
        self._loop.after(pause, lambda: self._watch(member, limit, process))

    def _settle(self) -> None:
        for missing, answered in self._waiting:
            if not missing:
                answered.set()
        self._waiting = [(missing, answered) for missing, answered in self._waiting if missing]
