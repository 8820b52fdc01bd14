"""Who waits for whom. No I/O, no clock, no lock: the scheduler calls it under its own.

A request waits until all it depends on are done; if one of them ends otherwise, so does it. A request of a chain waits
until it is the first of its chain that has not ended, however those before it did. Requests depend on earlier ones
only, so there are no circles.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from dflow_offline_inference.requests import Request, State


class Dependencies:
    """Requests that wait for others."""

    def __init__(self) -> None:
        self._dependents: dict[int, list[Request]] = {}
        self._chains: dict[object, OrderedDict[int, Request]] = {}

    def __bool__(self) -> bool:
        """Whether anybody waits for another, or may have to."""
        return bool(self._dependents or self._chains)

    def add(self, request: Request, after: Sequence[Request]) -> Request | None:
        """Note what a new request waits for, in `blockers`.

        Args:
            request: The new one.
            after: Those it depends on.

        Returns:
            One of them that has ended badly; nothing was noted then.
        """
        for other in after:
            if other.ended and other.state is not State.DONE:
                return other
        for other in dict.fromkeys(after):
            # `ended` may have been called for it already if it has ended; if not, it will find us.
            if not other.ended:
                request.blockers += 1
                self._dependents.setdefault(other.id, []).append(request)
        if request.chain is not None:
            chain = self._chains.setdefault(request.chain, OrderedDict())
            request.blockers += bool(chain)
            chain[request.id] = request
        return None

    def ended(self, request: Request) -> tuple[list[Request], list[Request]]:
        """A request has ended.

        Returns:
            Those that wait for nobody now, and those that can never run.
        """
        free: list[Request] = []
        failed: list[Request] = []
        waiting = self._dependents.pop(request.id, [])
        if request.state is not State.DONE:
            failed, waiting = [dependent for dependent in waiting if not dependent.ended], []
        if request.chain is not None:
            waiting += self._next_of_chain(request)
        for dependent in waiting:
            dependent.blockers -= 1
            if not dependent.blockers and not dependent.ended:
                free.append(dependent)
        return free, failed

    def _next_of_chain(self, request: Request) -> list[Request]:
        """Who is first of the chain now that its first has ended."""
        chain = self._chains.get(request.chain, OrderedDict())
        if request.id not in chain:
            return []
        was_first = next(iter(chain)) == request.id
        del chain[request.id]
        if not chain:
            del self._chains[request.chain]
            return []
        return [next(iter(chain.values()))] if was_first else []
