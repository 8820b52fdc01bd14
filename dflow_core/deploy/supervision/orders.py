"""Orders to the executors of a deployment, and who has not answered yet; belongs to the supervisor's thread."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dflow_core.deploy.supervision.member import Member
from dflow_core.model.control_serde import Obeyed, Order, OrderKind


@dataclass(slots=True, eq=False)
class Answer:
    """The answers to an order; any thread may wait for `complete`.

    Args:
        complete: Set when all have answered or are gone.
        quiet: Whether all said so, and none is gone.
    """

    complete: threading.Event = field(default_factory=threading.Event)
    quiet: bool = True


class OrderDesk:
    """Gives orders, and collects the answers."""

    def __init__(self) -> None:
        self.suspended = self._looking = False
        self._numbers = itertools.count(1)
        self._open: dict[int, tuple[set[Member], Answer]] = {}

    def look_soon(
        self, post: Callable[[Callable[[], None]], None], members: Callable[[], Iterable[Member]]
    ) -> None:
        """Have members look at the board of cancelled transactions, once for many calls of this (any thread).

        Args:
            post: Has a call made in the supervisor's thread.
            members: Gives those that run.
        """
        if not self._looking:
            self._looking = True
            post(lambda: self._look(members()))

    def _look(self, members: Iterable[Member]) -> None:
        self._looking = False
        self.give(members, OrderKind.LOOK)

    def give(self, members: Iterable[Member], kind: OrderKind, answer: Answer | None = None) -> None:
        """Send an order to members that run.

        Args:
            members: To whom.
            kind: What.
            answer: Takes the answers, for orders that have one.
        """
        if kind in (OrderKind.SUSPEND, OrderKind.RESUME):
            self.suspended = kind is OrderKind.SUSPEND
        number = next(self._numbers) if answer is not None else 0
        asked = set()
        for member in members:
            if member.process is not None:
                member.process.connection.send(Order(kind, number))
                asked.add(member)
        if answer is not None:
            self._open[number] = asked, answer
            self._settle(number)

    def take(self, member: Member, message: Obeyed) -> None:
        """An answer has come."""
        if message.number in self._open:
            asked, answer = self._open[message.number]
            asked.discard(member)
            answer.quiet = answer.quiet and message.quiet
            self._settle(message.number)

    def forget(self, member: Member) -> None:
        """Its process is gone: it answers nothing any more."""
        for number, (asked, answer) in list(self._open.items()):
            if member in asked:
                asked.discard(member)
                answer.quiet = False
                self._settle(number)

    def _settle(self, number: int) -> None:
        asked, answer = self._open[number]
        if not asked:
            del self._open[number]
            answer.complete.set()
