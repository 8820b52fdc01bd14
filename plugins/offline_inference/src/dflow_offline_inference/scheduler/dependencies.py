"""Who waits for whom. No I/O, no clock, no lock: the scheduler calls it under its own.

A request waits until all it depends on are done; if one of them ends otherwise, so does it. A request of a chain waits
until the one before it in the chain has ended, however that was. Requests depend on earlier ones only, so there are no
circles.
"""

from __future__ import annotations

from collections.abc import Sequence

from dflow_offline_inference.requests import Request, State


class Dependencies:
    """Requests that wait for others."""

    def __init__(self) -> None:
        self._dependents: dict[int, list[tuple[Request, bool]]] = {}
        self._tails: dict[object, Request] = {}

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
            self._wait(request, other, must_be_done=True)
        if request.chain is not None:
            before = self._tails.get(request.chain)
            if before is not None:
                self._wait(request, before, must_be_done=False)
            self._tails[request.chain] = request
        return None

    def ended(self, request: Request) -> tuple[list[Request], list[Request]]:
        """A request has ended.

        Returns:
            Those that wait for nobody now, and those that can never run.
        """
        if request.chain is None and request.id not in self._dependents:
            return [], []
        free: list[Request] = []
        failed: list[Request] = []
        if request.chain is not None and self._tails.get(request.chain) is request:
            del self._tails[request.chain]
        for dependent, must_be_done in self._dependents.pop(request.id, ()):
            if dependent.ended:
                continue
            if must_be_done and request.state is not State.DONE:
                failed.append(dependent)
                continue
            dependent.blockers -= 1
            if not dependent.blockers:
                free.append(dependent)
        return free, failed

    def _wait(self, request: Request, other: Request, must_be_done: bool) -> None:
        # `ended` may have been called for it already if it has ended; if not, it will find us.
        if not other.ended:
            request.blockers += 1
            self._dependents.setdefault(other.id, []).append((request, must_be_done))
